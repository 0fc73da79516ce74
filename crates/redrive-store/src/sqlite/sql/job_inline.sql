-- A closure that was redriven is carried out by a handler of its name, which any process may have.
SELECT j.inline AND coalesce(p.redrives, 0) = 0 FROM job j LEFT JOIN progress p ON p.job_id = j.id WHERE j.id = ?1
