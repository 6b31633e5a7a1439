CREATE TABLE `background` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`key` text,
	`idempotency` text,
	`body_hash` text NOT NULL,
	`status` text NOT NULL,
	`expires_at` integer NOT NULL,
	`response` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `background_account` ON `background` (`account`);--> statement-breakpoint
CREATE INDEX `background_expiry` ON `background` (`expires_at`);--> statement-breakpoint
CREATE UNIQUE INDEX `background_idempotency` ON `background` (`account`,`idempotency`);--> statement-breakpoint
CREATE TABLE `background_events` (
	`response` text NOT NULL,
	`from` integer NOT NULL,
	`lines` text NOT NULL,
	PRIMARY KEY(`response`, `from`)
) STRICT;
