CREATE TABLE `management_key` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`name` text NOT NULL,
	`hash` text NOT NULL,
	`last_four` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`networks` text,
	FOREIGN KEY (`account`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `management_key_account` ON `management_key` (`account`);--> statement-breakpoint
CREATE TABLE `usage_day` (
	`account` text NOT NULL,
	`day` integer NOT NULL,
	`key` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`errors` integer NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	PRIMARY KEY(`account`, `day`, `key`, `model`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `usage_day_day` ON `usage_day` (`day`);
--> statement-breakpoint
-- What was called before: the ledger's calls, and of the log what never became one.
INSERT INTO `usage_day` SELECT account, ended_at - ended_at % 86400000, coalesce(key, ''), model, count(*),
  sum(CASE WHEN state = 'voided' THEN ending <> 'client-gone' ELSE ending = 'provider-cut' END),
  coalesce(sum((SELECT sum(value) FROM json_each(receipt, '$.usage') WHERE json_each.key IN
    ('input', 'cacheRead', 'cacheReadAudio', 'cacheWrite5m', 'cacheWrite1h', 'inputAudio', 'inputImage'))), 0),
  coalesce(sum((SELECT sum(value) FROM json_each(receipt, '$.usage') WHERE json_each.key IN
    ('output', 'reasoning', 'outputAudio', 'outputImage'))), 0),
  sum(cost), sum(charged) FROM `call` GROUP BY 1, 2, 3, 4;
--> statement-breakpoint
INSERT INTO `usage_day` SELECT account, at - at % 86400000, coalesce(key, ''), '', count(*), count(*), 0, 0, 0, 0
  FROM `request_log` WHERE NOT EXISTS (SELECT 1 FROM `call` WHERE call.id = request_id) GROUP BY 1, 2, 3, 4;
