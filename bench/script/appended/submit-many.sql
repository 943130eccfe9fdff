-- Adds :size tasks.
select appended.fill(:size);
