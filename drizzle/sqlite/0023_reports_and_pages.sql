CREATE TABLE `usage_total` (
	`day` integer NOT NULL,
	`channel` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`errors` integer NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	PRIMARY KEY(`day`, `channel`, `model`),
	CONSTRAINT "usage_total_channel" CHECK(channel in ('api', 'app'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
DROP INDEX `api_key_account`;--> statement-breakpoint
CREATE INDEX `api_key_account` ON `api_key` (`account`,`created_at`,`id`);--> statement-breakpoint
DROP INDEX `request_log_account`;--> statement-breakpoint
DROP INDEX `request_log_at`;--> statement-breakpoint
DROP INDEX `request_log_code`;--> statement-breakpoint
CREATE INDEX `request_log_key` ON `request_log` (`key`,`at`,`seq`,`account`,`model`,`code`) WHERE key is not null;--> statement-breakpoint
CREATE INDEX `request_log_account` ON `request_log` (`account`,`at`,`seq`,`key`,`model`,`code`);--> statement-breakpoint
CREATE INDEX `request_log_at` ON `request_log` (`at`,`seq`,`key`,`model`,`code`);--> statement-breakpoint
CREATE INDEX `request_log_code` ON `request_log` (`account`,`code`,`at`,`seq`,`key`,`model`) WHERE code is not null;
--> statement-breakpoint
INSERT INTO `usage_total` SELECT day, CASE `key` WHEN '' THEN 'app' ELSE 'api' END, model, sum(calls), sum(errors),
  sum(input_tokens), sum(output_tokens), sum(cost), sum(charged) FROM `usage_day` GROUP BY 1, 2, 3;
