-- Accounts that were deleted by an earlier version left the long texts of their responses behind.
DELETE FROM `response_part` WHERE rowid IN
  (SELECT rowid FROM `response_part` WHERE response NOT IN (SELECT id FROM `response`));
