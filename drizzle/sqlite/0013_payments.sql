CREATE TABLE `payment_event` (
	`processor` text NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`at` integer NOT NULL,
	`hash` text NOT NULL,
	`outcome` text NOT NULL,
	`top_up` text,
	`reference` text,
	`payment_id` text,
	`news` text NOT NULL,
	PRIMARY KEY(`processor`, `id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `payment_event_at` ON `payment_event` (`at`);--> statement-breakpoint
CREATE INDEX `payment_event_top_up` ON `payment_event` (`top_up`) WHERE top_up is not null;--> statement-breakpoint
CREATE INDEX `payment_event_waiting` ON `payment_event` (`processor`,`payment_id`) WHERE outcome = 'waiting';--> statement-breakpoint
CREATE INDEX `payment_event_unfinished` ON `payment_event` (`at`) WHERE outcome = 'received';--> statement-breakpoint
CREATE TABLE `payment_reversal` (
	`processor` text NOT NULL,
	`id` text NOT NULL,
	`top_up` text NOT NULL,
	`kind` text NOT NULL,
	`amount` integer NOT NULL,
	`credit` integer NOT NULL,
	`held` integer NOT NULL,
	`booked` integer NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`processor`, `id`),
	CONSTRAINT "payment_reversal_kind" CHECK(kind in ('refund', 'open', 'won', 'lost')),
	CONSTRAINT "payment_reversal_amount" CHECK(amount >= 0 and credit >= 0 and held >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `payment_reversal_top_up` ON `payment_reversal` (`top_up`);--> statement-breakpoint
CREATE INDEX `payment_reversal_unbooked` ON `payment_reversal` (`at`) WHERE booked = 0;--> statement-breakpoint
CREATE TABLE `subscription` (
	`period` text PRIMARY KEY NOT NULL,
	`source` text NOT NULL,
	`subscription` text NOT NULL,
	`account` text NOT NULL,
	`product` text NOT NULL,
	`starts_at` integer NOT NULL,
	`ends_at` integer NOT NULL,
	`state` text NOT NULL,
	`amount` integer NOT NULL,
	`lot` text,
	`taken_back` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	CONSTRAINT "subscription_state" CHECK(state in ('active', 'grace', 'ended', 'refunded'))
) STRICT;
--> statement-breakpoint
CREATE INDEX `subscription_account` ON `subscription` (`account`,`starts_at`);--> statement-breakpoint
CREATE INDEX `subscription_of` ON `subscription` (`source`,`subscription`,`starts_at`);--> statement-breakpoint
CREATE TABLE `top_up` (
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
	CONSTRAINT "top_up_credited" CHECK(credited_at is null or (paid_at is not null and test = (lot is null)))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_reference` ON `top_up` (`processor`,`reference`) WHERE reference is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_payment` ON `top_up` (`processor`,`payment_id`) WHERE payment_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_lot` ON `top_up` (`lot`) WHERE lot is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_receipt` ON `top_up` (`receipt_year`,`receipt_number`) WHERE receipt_number is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `top_up_idempotency` ON `top_up` (`account`,`idempotency_key`) WHERE idempotency_key is not null;--> statement-breakpoint
CREATE INDEX `top_up_account` ON `top_up` (`account`,`created_at`);--> statement-breakpoint
CREATE INDEX `top_up_ask` ON `top_up` (`ask_at`) WHERE ask_at is not null;--> statement-breakpoint
CREATE INDEX `top_up_uncredited` ON `top_up` (`paid_at`) WHERE paid_at is not null and credited_at is null;--> statement-breakpoint
CREATE TABLE `voucher` (
	`id` text PRIMARY KEY NOT NULL,
	`hash` text NOT NULL,
	`amount` integer NOT NULL,
	`note` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`account` text,
	`redeemed_at` integer,
	`lot` text,
	CONSTRAINT "voucher_amount" CHECK(amount > 0),
	CONSTRAINT "voucher_redeemed" CHECK((account is null) = (redeemed_at is null))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `voucher_hash` ON `voucher` (`hash`);--> statement-breakpoint
CREATE INDEX `voucher_created` ON `voucher` (`created_at`);--> statement-breakpoint
CREATE INDEX `voucher_ungranted` ON `voucher` (`redeemed_at`) WHERE redeemed_at is not null and lot is null;
--> statement-breakpoint
DROP TABLE `payment`;
