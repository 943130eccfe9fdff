-- Submits :size jobs with specs of :bytes bytes.
insert into plain.job (queue, spec) select :queue, spec from reference.spec, generate_series(1, :size) where bytes = :bytes;
