CREATE TABLE `account_group` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`parent` text,
	`budget` integer,
	`window` text NOT NULL,
	`timezone` text NOT NULL,
	`member_budget` integer,
	`allowed_models` text,
	`tags` text,
	`warn_at` text NOT NULL,
	`created_at` integer NOT NULL,
	`deleted_at` integer,
	CONSTRAINT "account_group_window" CHECK(window in ('day', 'week', 'month', 'none')),
	CONSTRAINT "account_group_budget" CHECK(budget >= 0 and member_budget >= 0)
) STRICT;
--> statement-breakpoint
CREATE INDEX `account_group_parent` ON `account_group` (`parent`) WHERE parent is not null;--> statement-breakpoint
CREATE TABLE `budget_spend` (
	`scope` text NOT NULL,
	`window` integer NOT NULL,
	`spent` integer NOT NULL,
	PRIMARY KEY(`scope`, `window`),
	CONSTRAINT "budget_spend_spent" CHECK(spent >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `group_member` (
	`group_id` text NOT NULL,
	`account` text NOT NULL,
	`role` text NOT NULL,
	`budget` integer,
	`joined_at` integer NOT NULL,
	PRIMARY KEY(`group_id`, `account`),
	FOREIGN KEY (`account`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "group_member_role" CHECK(role in ('admin', 'member')),
	CONSTRAINT "group_member_budget" CHECK(budget >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `group_member_account` ON `group_member` (`account`);--> statement-breakpoint
ALTER TABLE `api_key` ADD `group_id` text;--> statement-breakpoint
ALTER TABLE `call` ADD `in_group` text;--> statement-breakpoint
ALTER TABLE `open_call` ADD `in_group` text;
