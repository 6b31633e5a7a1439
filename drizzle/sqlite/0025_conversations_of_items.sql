CREATE TABLE `item_conversation` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`key` text,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`bytes` integer NOT NULL,
	`metadata` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `item_conversation_account` ON `item_conversation` (`account`,`bytes`);--> statement-breakpoint
CREATE INDEX `item_conversation_expiry` ON `item_conversation` (`expires_at`);--> statement-breakpoint
CREATE TABLE `item_conversation_item` (
	`conversation` text NOT NULL,
	`seq` integer NOT NULL,
	`id` text NOT NULL,
	`item` text NOT NULL,
	PRIMARY KEY(`conversation`, `seq`)
) STRICT;
