-- Adds :size tasks.
select moved.fill(:size);
