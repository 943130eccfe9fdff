-- Submits one job with a spec of :bytes bytes.
insert into plain.job (queue, spec) select :queue, spec from reference.spec where bytes = :bytes returning id;
