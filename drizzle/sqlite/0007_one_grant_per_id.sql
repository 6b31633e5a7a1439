ALTER TABLE `api_key` ADD `lineage` text;--> statement-breakpoint
CREATE INDEX `api_key_lineage` ON `api_key` (`lineage`) WHERE lineage is not null;
--> statement-breakpoint
-- An operator's grant id stood for one grant in each account; now it is one in the whole ledger. Where several accounts
-- have used the same id, it is the first one's.
UPDATE OR IGNORE `lot` SET `source` = named.short FROM (
  SELECT id, short FROM (
    SELECT id, 'operator:' || substr(source, length(account) + 11) AS short,
      row_number() OVER (PARTITION BY substr(source, length(account) + 11) ORDER BY granted_at, id) AS nth
    FROM `lot` WHERE source GLOB 'operator:*' AND substr(source, 10, length(account) + 1) = account || ':')
  WHERE nth = 1) AS named
WHERE `lot`.id = named.id;
