-- Reads every cell; the database complains by itself about what it cannot read.
SELECT 'a row that cannot be read' FROM (
    SELECT hashtext(x::text) AS read FROM redrive.job x UNION ALL SELECT hashtext(x::text) FROM redrive.dead_letter x
    UNION ALL SELECT hashtext(x::text) FROM redrive.progress x UNION ALL SELECT hashtext(x::text) FROM redrive.lease x
    UNION ALL SELECT hashtext(x::text) FROM redrive.ended x UNION ALL SELECT hashtext(x::text) FROM redrive.event x
    UNION ALL SELECT hashtext(x::text) FROM redrive.aside x
) y WHERE y.read IS NULL
