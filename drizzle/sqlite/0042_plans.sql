PRAGMA foreign_keys=OFF;--> statement-breakpoint
CREATE TABLE `__new_top_up` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`processor` text NOT NULL,
	`test` integer NOT NULL,
	`reference` text,
	`url` text,
	`amount` integer NOT NULL,
	`currency` text NOT NULL,
	`rate` integer NOT NULL,
	`rate_as_of` text NOT NULL,
	`rate_source` text NOT NULL,
	`credit` integer NOT NULL,
	`plan` text,
	`state` text NOT NULL,
	`payment_id` text,
	`method` text,
	`lot` text,
	`refunded` integer NOT NULL,
	`problem` text,
	`receipt_year` integer,
	`receipt_number` integer,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`paid_at` integer,
	`credited_at` integer,
	`checked_at` integer,
	`ask_at` integer,
	`idempotency_key` text,
	`idempotency_hash` text,
	CONSTRAINT "top_up_state" CHECK(state in ('open','paid','credited','failed','expired','refunded_part','refunded','disputed')),
	CONSTRAINT "top_up_amount" CHECK(amount > 0 and rate > 0 and refunded between 0 and amount),
	CONSTRAINT "top_up_paid" CHECK((payment_id is null) = (paid_at is null)),
	CONSTRAINT "top_up_credited" CHECK(credited_at is null or (paid_at is not null
          and ((plan is null and test = (lot is null)) or (plan is not null and lot is null))))
) STRICT;
--> statement-breakpoint
INSERT INTO `__new_top_up`("id", "account", "processor", "test", "reference", "url", "amount", "currency", "rate", "rate_as_of", "rate_source", "credit", "plan", "state", "payment_id", "method", "lot", "refunded", "problem", "receipt_year", "receipt_number", "created_at", "expires_at", "paid_at", "credited_at", "checked_at", "ask_at", "idempotency_key", "idempotency_hash") SELECT "id", "account", "processor", "test", "reference", "url", "amount", "currency", "rate", "rate_as_of", "rate_source", "credit", NULL, "state", "payment_id", "method", "lot", "refunded", "problem", "receipt_year", "receipt_number", "created_at", "expires_at", "paid_at", "credited_at", "checked_at", "ask_at", "idempotency_key", "idempotency_hash" FROM `top_up`;--> statement-breakpoint
DROP TABLE `top_up`;--> statement-breakpoint
ALTER TABLE `__new_top_up` RENAME TO `top_up`;--> statement-breakpoint
PRAGMA foreign_keys=ON;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_reference` ON `top_up` (`processor`,`reference`) WHERE reference is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_payment` ON `top_up` (`processor`,`payment_id`) WHERE payment_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_lot` ON `top_up` (`lot`) WHERE lot is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_receipt` ON `top_up` (`receipt_year`,`receipt_number`) WHERE receipt_number is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_idempotency` ON `top_up` (`account`,`idempotency_key`) WHERE idempotency_key is not null;--> statement-breakpoint
CREATE INDEX `top_up_account` ON `top_up` (`account`,`created_at`);--> statement-breakpoint
CREATE INDEX `top_up_ask` ON `top_up` (`ask_at`) WHERE ask_at is not null;--> statement-breakpoint
CREATE INDEX `top_up_uncredited` ON `top_up` (`paid_at`) WHERE paid_at is not null and credited_at is null;--> statement-breakpoint
ALTER TABLE `subscription` ADD `models` text;--> statement-breakpoint
ALTER TABLE `subscription` ADD `cancelled_at` integer;--> statement-breakpoint
ALTER TABLE `subscription` ADD `reminded_at` integer;--> statement-breakpoint
CREATE INDEX `subscription_ungranted` ON `subscription` (`starts_at`) WHERE lot is null and source = 'weir.plan';--> statement-breakpoint
CREATE INDEX `subscription_unreminded` ON `subscription` (`ends_at`) WHERE reminded_at is null and source = 'weir.plan';
