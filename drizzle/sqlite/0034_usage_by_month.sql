CREATE TABLE `usage_month` (
	`month` integer NOT NULL,
	`account` text NOT NULL,
	`key` text NOT NULL,
	`days` integer NOT NULL,
	`calls` integer NOT NULL,
	`errors` integer NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	`timed` integer DEFAULT 0 NOT NULL,
	`ms` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`month`, `account`, `key`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_provider` (
	`day` integer NOT NULL,
	`provider` text NOT NULL,
	`channel` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`errors` integer NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	`timed` integer DEFAULT 0 NOT NULL,
	`ms` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`day`, `provider`, `channel`, `model`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `usage_day` ADD `timed` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_day` ADD `ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_tag` ADD `timed` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_tag` ADD `ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_tag_total` ADD `timed` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_tag_total` ADD `ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_total` ADD `timed` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage_total` ADD `ms` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
INSERT INTO usage_month (month, account, `key`, days, calls, errors, input_tokens, output_tokens, cost, charged)
  SELECT unixepoch(day / 1000, 'unixepoch', 'start of month') * 1000 AS month, account, `key`,
    sum(DISTINCT 1 << ((day - unixepoch(day / 1000, 'unixepoch', 'start of month') * 1000) / 86400000)), sum(calls), sum(errors),
    sum(input_tokens), sum(output_tokens), sum(cost), sum(charged)
  FROM usage_day GROUP BY 1, 2, 3;
