CREATE TABLE `account` (
	`id` text PRIMARY KEY NOT NULL,
	`email` text NOT NULL,
	`created_at` integer NOT NULL,
	`suspended` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `account_email` ON `account` (`email`);--> statement-breakpoint
CREATE TABLE `api_key` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`name` text NOT NULL,
	`mode` text NOT NULL,
	`hash` text NOT NULL,
	`last_four` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`spend_limit` integer,
	`limit_window` text NOT NULL,
	`allowed_models` text,
	FOREIGN KEY (`account`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "api_key_mode" CHECK(mode in ('live', 'test'))
) STRICT;
--> statement-breakpoint
CREATE INDEX `api_key_account` ON `api_key` (`account`);--> statement-breakpoint
CREATE TABLE `attempt` (
	`call` text NOT NULL,
	`n` integer NOT NULL,
	`provider` text NOT NULL,
	`upstream_id` text,
	`state` text NOT NULL,
	`code` text,
	`est_cost` integer NOT NULL,
	PRIMARY KEY(`call`, `n`),
	CONSTRAINT "attempt_state" CHECK(state in ('failed', 'unreconciled'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `call` (
	`seq` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account` text NOT NULL,
	`key` text,
	`state` text NOT NULL,
	`hold` integer NOT NULL,
	`pins` text,
	`funding` text NOT NULL,
	`model` text NOT NULL,
	`price_version` text NOT NULL,
	`key_limit` integer,
	`key_window` integer,
	`owner` text NOT NULL,
	`lease_until` integer NOT NULL,
	`opened_at` integer NOT NULL,
	`progress` text,
	`ended_at` integer,
	`ending` text,
	`cost` integer,
	`charged` integer,
	`absorbed` integer,
	`estimated` integer,
	`upstream_id` text,
	`receipt` text,
	`settle_tx` integer,
	CONSTRAINT "call_state" CHECK(state in ('open', 'settled', 'voided')),
	CONSTRAINT "call_open_means" CHECK((state = 'open') = (pins is not null) and (state = 'open') = (ended_at is null)),
	CONSTRAINT "call_cost" CHECK(state <> 'settled' or (cost = charged + absorbed and charged >= 0 and absorbed >= 0)),
	CONSTRAINT "call_void" CHECK(state <> 'voided' or (cost = 0 and settle_tx is null)),
	CONSTRAINT "call_hold" CHECK(hold >= 0)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `call_id` ON `call` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `call_settle_tx` ON `call` (`settle_tx`) WHERE settle_tx is not null;--> statement-breakpoint
CREATE INDEX `call_open` ON `call` (`account`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `call_upstream` ON `call` (`upstream_id`) WHERE upstream_id is not null;--> statement-breakpoint
CREATE TABLE `correction` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`kind` text NOT NULL,
	`taken` integer NOT NULL,
	`debt` integer NOT NULL,
	`at` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `idempotency` (
	`account` text NOT NULL,
	`key` text NOT NULL,
	`body_hash` blob NOT NULL,
	`call` text NOT NULL,
	`status` integer,
	`answer` blob,
	`expires_at` integer NOT NULL,
	PRIMARY KEY(`account`, `key`)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `idempotency_call` ON `idempotency` (`call`);--> statement-breakpoint
CREATE INDEX `idempotency_expiry` ON `idempotency` (`expires_at`);--> statement-breakpoint
CREATE TABLE `journal` (
	`tx` integer NOT NULL,
	`leg` integer NOT NULL,
	`kind` text NOT NULL,
	`account` text NOT NULL,
	`lot` text,
	`amount` integer NOT NULL,
	`at` integer NOT NULL,
	`prev_hash` blob NOT NULL,
	`hash` blob NOT NULL,
	PRIMARY KEY(`tx`, `leg`),
	CONSTRAINT "journal_amount" CHECK(amount <> 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `key_spend` (
	`key` text NOT NULL,
	`day` integer NOT NULL,
	`spent` integer NOT NULL,
	PRIMARY KEY(`key`, `day`),
	CONSTRAINT "key_spend_spent" CHECK(spent >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `lot` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`pool` text NOT NULL,
	`granted` integer NOT NULL,
	`remaining` integer NOT NULL,
	`pinned` integer NOT NULL,
	`expired` integer NOT NULL,
	`refunded` integer NOT NULL,
	`granted_at` integer NOT NULL,
	`expires_at` integer,
	`source` text NOT NULL,
	`live` integer NOT NULL,
	CONSTRAINT "lot_pool" CHECK(pool in ('purchased','welcome','daily','subscription')),
	CONSTRAINT "lot_granted" CHECK(granted between 1 and 1000000000000000000),
	CONSTRAINT "lot_parts" CHECK(expired >= 0 and refunded >= 0 and remaining + expired + refunded <= granted),
	CONSTRAINT "lot_pinned" CHECK(pinned between 0 and remaining),
	CONSTRAINT "lot_live_means" CHECK(live = (remaining > 0))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `lot_source` ON `lot` (`source`);--> statement-breakpoint
CREATE INDEX `lot_live` ON `lot` (`account`) WHERE live = 1;--> statement-breakpoint
CREATE INDEX `lot_expiry` ON `lot` (`expires_at`) WHERE live = 1;--> statement-breakpoint
CREATE INDEX `lot_account` ON `lot` (`account`,`pool`,`expires_at`);--> statement-breakpoint
CREATE TABLE `payment` (
	`processor` text NOT NULL,
	`order_id` text NOT NULL,
	`payment_id` text,
	`account` text NOT NULL,
	`amount` integer NOT NULL,
	`currency` text NOT NULL,
	`state` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`processor`, `order_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `payment_id` ON `payment` (`processor`,`payment_id`) WHERE payment_id is not null;--> statement-breakpoint
CREATE TABLE `price_version` (
	`version` text PRIMARY KEY NOT NULL,
	`model` text NOT NULL,
	`price` text NOT NULL,
	`recorded_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `request_log` (
	`seq` integer PRIMARY KEY NOT NULL,
	`request_id` text NOT NULL,
	`at` integer NOT NULL,
	`account` text NOT NULL,
	`key` text,
	`model` text NOT NULL,
	`provider` text,
	`stream` integer NOT NULL,
	`status` integer NOT NULL,
	`code` text,
	`ending` text,
	`prompt_tokens` integer NOT NULL,
	`completion_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`attempts` integer NOT NULL,
	`first_byte_ms` integer,
	`total_ms` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `request_log_account` ON `request_log` (`account`,`at`);--> statement-breakpoint
CREATE INDEX `request_log_at` ON `request_log` (`at`);--> statement-breakpoint
CREATE TABLE `server` (
	`owner` text PRIMARY KEY NOT NULL,
	`started_at` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `signature` (
	`tool_call` text PRIMARY KEY NOT NULL,
	`signature` text NOT NULL,
	`expires_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `signature_expiry` ON `signature` (`expires_at`);--> statement-breakpoint
CREATE TABLE `wallet` (
	`account` text NOT NULL,
	`pool` text NOT NULL,
	`posted` integer NOT NULL,
	`held` integer NOT NULL,
	`debt` integer NOT NULL,
	`version` integer NOT NULL,
	PRIMARY KEY(`account`, `pool`),
	CONSTRAINT "wallet_pool" CHECK(pool in ('purchased','welcome','daily','subscription')),
	CONSTRAINT "wallet_held" CHECK(held between 0 and posted),
	CONSTRAINT "wallet_posted" CHECK(posted between 0 and 4000000000000000000),
	CONSTRAINT "wallet_debt" CHECK(debt >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TRIGGER `journal_no_update` BEFORE UPDATE ON `journal` BEGIN SELECT raise(ABORT, 'journal is insert only'); END;
--> statement-breakpoint
CREATE TRIGGER `journal_no_delete` BEFORE DELETE ON `journal` BEGIN SELECT raise(ABORT, 'journal is insert only'); END;
--> statement-breakpoint
CREATE TRIGGER `price_version_no_update` BEFORE UPDATE ON `price_version` BEGIN SELECT raise(ABORT, 'price_version is insert only'); END;
--> statement-breakpoint
CREATE TRIGGER `price_version_no_delete` BEFORE DELETE ON `price_version` BEGIN SELECT raise(ABORT, 'price_version is insert only'); END;
