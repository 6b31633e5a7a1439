CREATE TABLE `act` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`operator` text NOT NULL,
	`what` text NOT NULL,
	`subject` text NOT NULL,
	`before` text,
	`after` text
) STRICT;
--> statement-breakpoint
CREATE INDEX `act_subject` ON `act` (`subject`,`seq`);--> statement-breakpoint
CREATE INDEX `act_operator` ON `act` (`operator`,`seq`);--> statement-breakpoint
CREATE TABLE `identity` (
	`issuer` text NOT NULL,
	`subject` text NOT NULL,
	`account` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`issuer`, `subject`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `identity_account` ON `identity` (`account`);--> statement-breakpoint
CREATE TABLE `passkey` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`public_key` blob NOT NULL,
	`counter` integer NOT NULL,
	`transports` text NOT NULL,
	`name` text NOT NULL,
	`backed_up` integer NOT NULL,
	`created_at` integer NOT NULL,
	`last_used_at` integer
) STRICT;
--> statement-breakpoint
CREATE INDEX `passkey_account` ON `passkey` (`account`);--> statement-breakpoint
CREATE TABLE `ticket` (
	`id` text PRIMARY KEY NOT NULL,
	`hash` text NOT NULL,
	`kind` text NOT NULL,
	`account` text,
	`data` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`used_at` integer
) STRICT;
--> statement-breakpoint
CREATE INDEX `ticket_expiry` ON `ticket` (`expires_at`);--> statement-breakpoint
CREATE INDEX `ticket_account` ON `ticket` (`account`) WHERE account is not null;--> statement-breakpoint
CREATE TABLE `welcome` (
	`address` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`day` integer NOT NULL,
	`amount` integer NOT NULL,
	CONSTRAINT "welcome_amount" CHECK(amount >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `welcome_day` ON `welcome` (`day`);--> statement-breakpoint
ALTER TABLE `account` ADD `role` text DEFAULT 'user' NOT NULL;--> statement-breakpoint
ALTER TABLE `account` ADD `password` text;--> statement-breakpoint
ALTER TABLE `account` ADD `password_changed_at` integer;--> statement-breakpoint
ALTER TABLE `account` ADD `email_verified_at` integer;--> statement-breakpoint
ALTER TABLE `account` ADD `deleted_at` integer;--> statement-breakpoint
ALTER TABLE `api_key` ADD `requests_per_minute` integer;--> statement-breakpoint
ALTER TABLE `api_key` ADD `tokens_per_minute` integer;--> statement-breakpoint
ALTER TABLE `api_key` ADD `networks` text;--> statement-breakpoint
ALTER TABLE `api_key` ADD `used_at` integer;--> statement-breakpoint
ALTER TABLE `session` ADD `user_agent` text;--> statement-breakpoint
ALTER TABLE `session` ADD `seen_at` integer;--> statement-breakpoint
ALTER TABLE `session` ADD `idle_ms` integer;--> statement-breakpoint
ALTER TABLE `session` ADD `elevated_until` integer;
--> statement-breakpoint
CREATE TRIGGER `act_no_update` BEFORE UPDATE ON `act` BEGIN SELECT raise(ABORT, 'act is insert only'); END;
--> statement-breakpoint
CREATE TRIGGER `act_no_delete` BEFORE DELETE ON `act` BEGIN SELECT raise(ABORT, 'act is insert only'); END;
--> statement-breakpoint
-- Until now every account was made by the operator's command, who vouches for its address.
UPDATE `account` SET `email_verified_at` = `created_at`;
--> statement-breakpoint
UPDATE `account` SET `role` = 'operator' WHERE `email` = 'owner@localhost';
