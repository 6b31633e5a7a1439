CREATE TABLE "account" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"email" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"suspended" bigint NOT NULL,
	"role" text COLLATE "C" DEFAULT 'user' NOT NULL,
	"password" text COLLATE "C",
	"password_changed_at" bigint,
	"email_verified_at" bigint,
	"deleted_at" bigint
);
--> statement-breakpoint
CREATE TABLE "account_group" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"parent" text COLLATE "C",
	"budget" bigint,
	"window" text COLLATE "C" NOT NULL,
	"timezone" text COLLATE "C" NOT NULL,
	"member_budget" bigint,
	"allowed_models" text COLLATE "C",
	"tags" text COLLATE "C",
	"warn_at" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"deleted_at" bigint,
	CONSTRAINT "account_group_window" CHECK ("window" in ('day', 'week', 'month', 'none')),
	CONSTRAINT "account_group_budget" CHECK (budget >= 0 and member_budget >= 0)
);
--> statement-breakpoint
CREATE TABLE "act" (
	"seq" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "act_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" bigint NOT NULL,
	"operator" text COLLATE "C" NOT NULL,
	"what" text COLLATE "C" NOT NULL,
	"subject" text COLLATE "C" NOT NULL,
	"before" text COLLATE "C",
	"after" text COLLATE "C"
);
--> statement-breakpoint
CREATE TABLE "allowance" (
	"address" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"day" bigint NOT NULL,
	"amount" bigint NOT NULL,
	"given" bigint NOT NULL,
	CONSTRAINT "allowance_amount" CHECK (amount > 0 and given >= amount)
);
--> statement-breakpoint
CREATE TABLE "api_key" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"mode" text COLLATE "C" NOT NULL,
	"hash" text COLLATE "C" NOT NULL,
	"last_four" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"expires_at" bigint,
	"revoked_at" bigint,
	"paused_at" bigint,
	"paused_by" text COLLATE "C",
	"spend_limit" bigint,
	"limit_window" text COLLATE "C" NOT NULL,
	"allowed_models" text COLLATE "C",
	"lineage" text COLLATE "C",
	"requests_per_minute" bigint,
	"tokens_per_minute" bigint,
	"networks" text COLLATE "C",
	"group_id" text COLLATE "C",
	"sees" text COLLATE "C" DEFAULT 'own' NOT NULL,
	"used_at" bigint,
	CONSTRAINT "api_key_mode" CHECK (mode in ('live', 'test'))
);
--> statement-breakpoint
CREATE TABLE "attempt" (
	"call" text COLLATE "C" NOT NULL,
	"n" bigint NOT NULL,
	"provider" text COLLATE "C" NOT NULL,
	"upstream_id" text COLLATE "C",
	"state" text COLLATE "C" NOT NULL,
	"code" text COLLATE "C",
	"est_cost" bigint NOT NULL,
	CONSTRAINT "attempt_call_n_pk" PRIMARY KEY("call","n"),
	CONSTRAINT "attempt_state" CHECK (state in ('failed', 'unreconciled'))
);
--> statement-breakpoint
CREATE TABLE "background" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C",
	"idempotency" text COLLATE "C",
	"body_hash" text COLLATE "C" NOT NULL,
	"status" text COLLATE "C" NOT NULL,
	"expires_at" bigint NOT NULL,
	"response" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "background_events" (
	"response" text COLLATE "C" NOT NULL,
	"from" bigint NOT NULL,
	"lines" text COLLATE "C" NOT NULL,
	CONSTRAINT "background_events_response_from_pk" PRIMARY KEY("response","from")
);
--> statement-breakpoint
CREATE TABLE "budget_spend" (
	"scope" text COLLATE "C" NOT NULL,
	"window" bigint NOT NULL,
	"spent" bigint NOT NULL,
	"held" bigint NOT NULL,
	"version" bigint NOT NULL,
	CONSTRAINT "budget_spend_scope_window_pk" PRIMARY KEY("scope","window"),
	CONSTRAINT "budget_spend_spent" CHECK (spent >= 0)
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "call" (
	"seq" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "call_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"id" text COLLATE "C" NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C",
	"state" text COLLATE "C" NOT NULL,
	"hold" bigint NOT NULL,
	"funding" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"price_version" text COLLATE "C" NOT NULL,
	"owner" text COLLATE "C" NOT NULL,
	"opened_at" bigint NOT NULL,
	"ended_at" bigint NOT NULL,
	"ending" text COLLATE "C" NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	"absorbed" bigint NOT NULL,
	"estimated" bigint NOT NULL,
	"upstream_id" text COLLATE "C",
	"receipt" text COLLATE "C",
	"in_group" text COLLATE "C",
	"settle_chain" bigint,
	"settle_tx" bigint,
	"tags" text COLLATE "C",
	CONSTRAINT "call_state" CHECK (state in ('settled', 'voided')),
	CONSTRAINT "call_cost" CHECK (cost = charged + absorbed and charged >= 0 and absorbed >= 0),
	CONSTRAINT "call_void" CHECK (state <> 'voided' or (cost = 0 and settle_tx is null)),
	CONSTRAINT "call_hold" CHECK (hold >= 0)
);
--> statement-breakpoint
CREATE TABLE "chain" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "chain_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"owner" text COLLATE "C" NOT NULL,
	"epoch" bigint NOT NULL,
	"batch" bigint NOT NULL,
	"tx" bigint NOT NULL,
	"head" "bytea" NOT NULL,
	"at" bigint NOT NULL,
	CONSTRAINT "chain_owner_unique" UNIQUE("owner")
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "console_settings" (
	"revision" bigint PRIMARY KEY NOT NULL,
	"at" bigint NOT NULL,
	"operator" text COLLATE "C" NOT NULL,
	"before" bigint NOT NULL,
	"settings" text COLLATE "C" NOT NULL,
	"sealed" "bytea"
);
--> statement-breakpoint
CREATE TABLE "conversation" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"title" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C",
	"last_response" text COLLATE "C",
	"created_at" bigint NOT NULL,
	"updated_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "correction" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"taken" bigint NOT NULL,
	"debt" bigint NOT NULL,
	"at" bigint NOT NULL,
	"lot" text COLLATE "C"
);
--> statement-breakpoint
CREATE TABLE "credit_line" (
	"account" text COLLATE "C" PRIMARY KEY NOT NULL,
	"most" bigint NOT NULL,
	"at" bigint NOT NULL,
	"spent" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "credit_line_most" CHECK (most between 0 and 4000000000000000000)
);
--> statement-breakpoint
CREATE TABLE "group_member" (
	"group_id" text COLLATE "C" NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"role" text COLLATE "C" NOT NULL,
	"budget" bigint,
	"joined_at" bigint NOT NULL,
	CONSTRAINT "group_member_group_id_account_pk" PRIMARY KEY("group_id","account"),
	CONSTRAINT "group_member_role" CHECK (role in ('admin', 'member')),
	CONSTRAINT "group_member_budget" CHECK (budget >= 0)
);
--> statement-breakpoint
CREATE TABLE "idempotency" (
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C" NOT NULL,
	"body_hash" "bytea" NOT NULL,
	"call" text COLLATE "C" NOT NULL,
	"owner" text COLLATE "C" DEFAULT '' NOT NULL,
	"status" bigint,
	"headers" text COLLATE "C",
	"answer" "bytea",
	"expires_at" bigint NOT NULL,
	CONSTRAINT "idempotency_account_key_pk" PRIMARY KEY("account","key")
);
--> statement-breakpoint
CREATE TABLE "identity" (
	"issuer" text COLLATE "C" NOT NULL,
	"subject" text COLLATE "C" NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	CONSTRAINT "identity_issuer_subject_pk" PRIMARY KEY("issuer","subject")
);
--> statement-breakpoint
CREATE TABLE "item_conversation" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C",
	"created_at" bigint NOT NULL,
	"expires_at" bigint NOT NULL,
	"bytes" bigint NOT NULL,
	"metadata" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "item_conversation_item" (
	"conversation" text COLLATE "C" NOT NULL,
	"seq" bigint NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"item" text COLLATE "C" NOT NULL,
	CONSTRAINT "item_conversation_item_conversation_seq_pk" PRIMARY KEY("conversation","seq")
);
--> statement-breakpoint
CREATE TABLE "journal" (
	"chain" bigint NOT NULL,
	"version" bigint,
	"tx" bigint NOT NULL,
	"leg" bigint NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"lot" text COLLATE "C",
	"amount" bigint NOT NULL,
	"at" bigint NOT NULL,
	"prev_hash" "bytea" NOT NULL,
	"hash" "bytea" NOT NULL,
	CONSTRAINT "journal_chain_tx_leg_pk" PRIMARY KEY("chain","tx","leg"),
	CONSTRAINT "journal_amount" CHECK (amount <> 0)
);
--> statement-breakpoint
CREATE TABLE "key_spend" (
	"key" text COLLATE "C" NOT NULL,
	"day" bigint NOT NULL,
	"spent" bigint NOT NULL,
	CONSTRAINT "key_spend_key_day_pk" PRIMARY KEY("key","day"),
	CONSTRAINT "key_spend_spent" CHECK (spent >= 0)
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "lot" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"pool" text COLLATE "C" NOT NULL,
	"granted" bigint NOT NULL,
	"remaining" bigint NOT NULL,
	"pinned" bigint NOT NULL,
	"expired" bigint NOT NULL,
	"refunded" bigint NOT NULL,
	"granted_at" bigint NOT NULL,
	"expires_at" bigint,
	"source" text COLLATE "C" NOT NULL,
	"live" bigint NOT NULL,
	CONSTRAINT "lot_pool" CHECK (pool in ('purchased','welcome','daily','subscription')),
	CONSTRAINT "lot_granted" CHECK (granted between 1 and 1000000000000000000),
	CONSTRAINT "lot_parts" CHECK (expired >= 0 and refunded >= 0 and remaining + expired + refunded <= granted),
	CONSTRAINT "lot_pinned" CHECK (pinned between 0 and remaining),
	CONSTRAINT "lot_live_means" CHECK (live = (case when remaining > 0 then 1 else 0 end))
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "management_key" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"hash" text COLLATE "C" NOT NULL,
	"last_four" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"expires_at" bigint,
	"revoked_at" bigint,
	"networks" text COLLATE "C"
);
--> statement-breakpoint
CREATE TABLE "mcp_server" (
	"account" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"url" text COLLATE "C" NOT NULL,
	"sealed" "bytea",
	"created_at" bigint NOT NULL,
	"changed_at" bigint NOT NULL,
	CONSTRAINT "mcp_server_account_name_pk" PRIMARY KEY("account","name")
);
--> statement-breakpoint
CREATE TABLE "open_call" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C",
	"hold" bigint NOT NULL,
	"pins" text COLLATE "C" NOT NULL,
	"funding" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"price_version" text COLLATE "C" NOT NULL,
	"key_limit" bigint,
	"key_window" bigint,
	"in_group" text COLLATE "C",
	"owner" text COLLATE "C" NOT NULL,
	"lease_until" bigint NOT NULL,
	"opened_at" bigint NOT NULL,
	"progress" text COLLATE "C",
	"tags" text COLLATE "C",
	CONSTRAINT "open_call_hold" CHECK (hold >= 0)
);
--> statement-breakpoint
CREATE TABLE "passkey" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"public_key" "bytea" NOT NULL,
	"counter" bigint NOT NULL,
	"transports" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"backed_up" bigint NOT NULL,
	"created_at" bigint NOT NULL,
	"last_used_at" bigint
);
--> statement-breakpoint
CREATE TABLE "payment_event" (
	"processor" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"type" text COLLATE "C" NOT NULL,
	"at" bigint NOT NULL,
	"hash" text COLLATE "C" NOT NULL,
	"outcome" text COLLATE "C" NOT NULL,
	"top_up" text COLLATE "C",
	"reference" text COLLATE "C",
	"payment_id" text COLLATE "C",
	"news" text COLLATE "C" NOT NULL,
	CONSTRAINT "payment_event_processor_id_pk" PRIMARY KEY("processor","id")
);
--> statement-breakpoint
CREATE TABLE "payment_refund" (
	"top_up" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"amount" bigint NOT NULL,
	"asked_at" bigint NOT NULL,
	"made_at" bigint,
	CONSTRAINT "payment_refund_top_up_id_pk" PRIMARY KEY("top_up","id"),
	CONSTRAINT "payment_refund_amount" CHECK (amount > 0)
);
--> statement-breakpoint
CREATE TABLE "payment_reversal" (
	"processor" text COLLATE "C" NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"top_up" text COLLATE "C" NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"amount" bigint NOT NULL,
	"credit" bigint NOT NULL,
	"held" bigint NOT NULL,
	"booked" bigint NOT NULL,
	"at" bigint NOT NULL,
	CONSTRAINT "payment_reversal_processor_id_pk" PRIMARY KEY("processor","id"),
	CONSTRAINT "payment_reversal_kind" CHECK (kind in ('refund', 'failed', 'open', 'won', 'lost')),
	CONSTRAINT "payment_reversal_amount" CHECK (amount >= 0 and credit >= 0 and held >= 0)
);
--> statement-breakpoint
CREATE TABLE "price_version" (
	"version" text COLLATE "C" PRIMARY KEY NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"price" text COLLATE "C" NOT NULL,
	"recorded_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "request_log" (
	"seq" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "request_log_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"request_id" text COLLATE "C" NOT NULL,
	"at" bigint NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C",
	"model" text COLLATE "C" NOT NULL,
	"provider" text COLLATE "C",
	"stream" bigint NOT NULL,
	"status" bigint NOT NULL,
	"code" text COLLATE "C",
	"ending" text COLLATE "C",
	"prompt_tokens" bigint NOT NULL,
	"completion_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"attempts" bigint NOT NULL,
	"first_byte_ms" bigint,
	"total_ms" bigint NOT NULL,
	"detail" text COLLATE "C",
	"contents" text COLLATE "C",
	"tags" text COLLATE "C"
);
--> statement-breakpoint
CREATE TABLE "request_tag" (
	"tag" text COLLATE "C" NOT NULL,
	"value" text COLLATE "C" NOT NULL,
	"at" bigint NOT NULL,
	"seq" bigint NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	CONSTRAINT "request_tag_tag_value_at_seq_pk" PRIMARY KEY("tag","value","at","seq")
);
--> statement-breakpoint
CREATE TABLE "response" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"call" text COLLATE "C" NOT NULL,
	"previous" text COLLATE "C",
	"expires_at" bigint NOT NULL,
	"kept_until" bigint NOT NULL,
	"size" bigint NOT NULL,
	"input" text COLLATE "C" NOT NULL,
	"answer" text COLLATE "C" NOT NULL,
	"parts" bigint
);
--> statement-breakpoint
CREATE TABLE "response_part" (
	"response" text COLLATE "C" NOT NULL,
	"part" bigint NOT NULL,
	"of" text COLLATE "C" NOT NULL,
	"text" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "server" (
	"owner" text COLLATE "C" PRIMARY KEY NOT NULL,
	"started_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "session" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"hash" text COLLATE "C" NOT NULL,
	"last_four" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"expires_at" bigint NOT NULL,
	"revoked_at" bigint,
	"user_agent" text COLLATE "C",
	"seen_at" bigint,
	"idle_ms" bigint,
	"elevated_until" bigint
);
--> statement-breakpoint
CREATE TABLE "signature" (
	"tool_call" text COLLATE "C" PRIMARY KEY NOT NULL,
	"signature" text COLLATE "C" NOT NULL,
	"expires_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "subscription" (
	"period" text COLLATE "C" PRIMARY KEY NOT NULL,
	"source" text COLLATE "C" NOT NULL,
	"subscription" text COLLATE "C" NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"product" text COLLATE "C" NOT NULL,
	"starts_at" bigint NOT NULL,
	"ends_at" bigint NOT NULL,
	"state" text COLLATE "C" NOT NULL,
	"amount" bigint NOT NULL,
	"lot" text COLLATE "C",
	"taken_back" bigint,
	"created_at" bigint NOT NULL,
	"updated_at" bigint NOT NULL,
	CONSTRAINT "subscription_state" CHECK (state in ('active', 'grace', 'ended', 'refunded', 'refund_reversed'))
);
--> statement-breakpoint
CREATE TABLE "ticket" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"hash" text COLLATE "C" NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"account" text COLLATE "C",
	"data" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"expires_at" bigint NOT NULL,
	"used_at" bigint
);
--> statement-breakpoint
CREATE TABLE "top_up" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"processor" text COLLATE "C" NOT NULL,
	"test" bigint NOT NULL,
	"reference" text COLLATE "C",
	"url" text COLLATE "C",
	"amount" bigint NOT NULL,
	"currency" text COLLATE "C" NOT NULL,
	"rate" bigint NOT NULL,
	"rate_as_of" text COLLATE "C" NOT NULL,
	"rate_source" text COLLATE "C" NOT NULL,
	"credit" bigint NOT NULL,
	"state" text COLLATE "C" NOT NULL,
	"payment_id" text COLLATE "C",
	"method" text COLLATE "C",
	"lot" text COLLATE "C",
	"refunded" bigint NOT NULL,
	"problem" text COLLATE "C",
	"receipt_year" bigint,
	"receipt_number" bigint,
	"created_at" bigint NOT NULL,
	"expires_at" bigint NOT NULL,
	"paid_at" bigint,
	"credited_at" bigint,
	"checked_at" bigint,
	"ask_at" bigint,
	"idempotency_key" text COLLATE "C",
	"idempotency_hash" text COLLATE "C",
	CONSTRAINT "top_up_state" CHECK (state in ('open','paid','credited','failed','expired','refunded_part','refunded','disputed')),
	CONSTRAINT "top_up_amount" CHECK (amount > 0 and rate > 0 and refunded between 0 and amount),
	CONSTRAINT "top_up_paid" CHECK ((payment_id is null) = (paid_at is null)),
	CONSTRAINT "top_up_credited" CHECK (credited_at is null or (paid_at is not null and test = (case when lot is null then 1 else 0 end)))
);
--> statement-breakpoint
CREATE TABLE "upkeep" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"at" bigint NOT NULL,
	"value" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "usage_day" (
	"account" text COLLATE "C" NOT NULL,
	"day" bigint NOT NULL,
	"key" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"calls" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	CONSTRAINT "usage_day_account_day_key_model_pk" PRIMARY KEY("account","day","key","model")
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "usage_tag" (
	"account" text COLLATE "C" NOT NULL,
	"tag" text COLLATE "C" NOT NULL,
	"day" bigint NOT NULL,
	"value" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"calls" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	CONSTRAINT "usage_tag_account_tag_day_value_key_model_pk" PRIMARY KEY("account","tag","day","value","key","model")
);
--> statement-breakpoint
CREATE TABLE "usage_tag_total" (
	"tag" text COLLATE "C" NOT NULL,
	"day" bigint NOT NULL,
	"value" text COLLATE "C" NOT NULL,
	"channel" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"chain" bigint NOT NULL,
	"calls" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	CONSTRAINT "usage_tag_total_tag_day_value_channel_model_chain_pk" PRIMARY KEY("tag","day","value","channel","model","chain")
);
--> statement-breakpoint
CREATE TABLE "usage_total" (
	"day" bigint NOT NULL,
	"channel" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"chain" bigint NOT NULL,
	"calls" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	CONSTRAINT "usage_total_day_channel_model_chain_pk" PRIMARY KEY("day","channel","model","chain"),
	CONSTRAINT "usage_total_channel" CHECK (channel in ('api', 'app'))
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "voucher" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"hash" text COLLATE "C" NOT NULL,
	"amount" bigint NOT NULL,
	"note" text COLLATE "C" NOT NULL,
	"created_at" bigint NOT NULL,
	"expires_at" bigint,
	"revoked_at" bigint,
	"account" text COLLATE "C",
	"redeemed_at" bigint,
	"lot" text COLLATE "C",
	CONSTRAINT "voucher_amount" CHECK (amount > 0),
	CONSTRAINT "voucher_redeemed" CHECK ((account is null) = (redeemed_at is null))
);
--> statement-breakpoint
CREATE TABLE "wallet" (
	"account" text COLLATE "C" NOT NULL,
	"pool" text COLLATE "C" NOT NULL,
	"posted" bigint NOT NULL,
	"held" bigint NOT NULL,
	"debt" bigint NOT NULL,
	"version" bigint NOT NULL,
	CONSTRAINT "wallet_account_pool_pk" PRIMARY KEY("account","pool"),
	CONSTRAINT "wallet_pool" CHECK (pool in ('purchased','welcome','daily','subscription')),
	CONSTRAINT "wallet_held" CHECK (held between 0 and posted),
	CONSTRAINT "wallet_posted" CHECK (posted between 0 and 4000000000000000000),
	CONSTRAINT "wallet_debt" CHECK (debt >= 0)
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "wallet_head" (
	"account" text COLLATE "C" PRIMARY KEY NOT NULL,
	"version" bigint NOT NULL,
	"at" bigint NOT NULL
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "webhook" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"url" text COLLATE "C" NOT NULL,
	"events" text COLLATE "C" NOT NULL,
	"sealed" "bytea" NOT NULL,
	"created_at" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "webhook_delivery" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"webhook" text COLLATE "C" NOT NULL,
	"type" text COLLATE "C" NOT NULL,
	"source" text COLLATE "C" NOT NULL,
	"at" bigint NOT NULL,
	"body" text COLLATE "C" NOT NULL,
	"state" text COLLATE "C" NOT NULL,
	"next_at" bigint,
	"attempts" text COLLATE "C" NOT NULL,
	CONSTRAINT "webhook_delivery_state" CHECK (state in ('waiting', 'delivered', 'given_up')),
	CONSTRAINT "webhook_delivery_next" CHECK ((state = 'waiting') = (next_at is not null))
);
--> statement-breakpoint
CREATE TABLE "welcome" (
	"address" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"day" bigint NOT NULL,
	"amount" bigint NOT NULL,
	CONSTRAINT "welcome_amount" CHECK (amount >= 0)
);
--> statement-breakpoint
ALTER TABLE "api_key" ADD CONSTRAINT "api_key_account_account_id_fk" FOREIGN KEY ("account") REFERENCES "public"."account"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "group_member" ADD CONSTRAINT "group_member_account_account_id_fk" FOREIGN KEY ("account") REFERENCES "public"."account"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "management_key" ADD CONSTRAINT "management_key_account_account_id_fk" FOREIGN KEY ("account") REFERENCES "public"."account"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "mcp_server" ADD CONSTRAINT "mcp_server_account_account_id_fk" FOREIGN KEY ("account") REFERENCES "public"."account"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "session" ADD CONSTRAINT "session_account_account_id_fk" FOREIGN KEY ("account") REFERENCES "public"."account"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "account_email" ON "account" USING btree ("email");--> statement-breakpoint
CREATE INDEX "account_group_parent" ON "account_group" USING btree ("parent") WHERE parent is not null;--> statement-breakpoint
CREATE INDEX "act_subject" ON "act" USING btree ("subject","seq");--> statement-breakpoint
CREATE INDEX "act_operator" ON "act" USING btree ("operator","seq");--> statement-breakpoint
CREATE INDEX "allowance_day" ON "allowance" USING btree ("day","given");--> statement-breakpoint
CREATE INDEX "api_key_account" ON "api_key" USING btree ("account","created_at","id");--> statement-breakpoint
CREATE INDEX "api_key_lineage" ON "api_key" USING btree ("lineage") WHERE lineage is not null;--> statement-breakpoint
CREATE INDEX "api_key_last_four" ON "api_key" USING btree ("last_four");--> statement-breakpoint
CREATE INDEX "background_account" ON "background" USING btree ("account");--> statement-breakpoint
CREATE INDEX "background_expiry" ON "background" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "background_idempotency" ON "background" USING btree ("account","idempotency");--> statement-breakpoint
CREATE UNIQUE INDEX "call_id" ON "call" USING btree ("id");--> statement-breakpoint
CREATE UNIQUE INDEX "call_settle_tx" ON "call" USING btree ("settle_chain","settle_tx") WHERE settle_tx is not null;--> statement-breakpoint
CREATE INDEX "call_upstream" ON "call" USING btree ("upstream_id") WHERE upstream_id is not null;--> statement-breakpoint
CREATE INDEX "conversation_account" ON "conversation" USING btree ("account","updated_at");--> statement-breakpoint
CREATE INDEX "correction_lot" ON "correction" USING btree ("lot");--> statement-breakpoint
CREATE INDEX "group_member_account" ON "group_member" USING btree ("account");--> statement-breakpoint
CREATE UNIQUE INDEX "idempotency_call" ON "idempotency" USING btree ("call");--> statement-breakpoint
CREATE INDEX "idempotency_expiry" ON "idempotency" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "identity_account" ON "identity" USING btree ("account");--> statement-breakpoint
CREATE INDEX "item_conversation_account" ON "item_conversation" USING btree ("account","bytes");--> statement-breakpoint
CREATE INDEX "item_conversation_expiry" ON "item_conversation" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "lot_source" ON "lot" USING btree ("source");--> statement-breakpoint
CREATE INDEX "lot_live" ON "lot" USING btree ("account") WHERE live = 1;--> statement-breakpoint
CREATE INDEX "lot_expiry" ON "lot" USING btree ("expires_at") WHERE live = 1;--> statement-breakpoint
CREATE INDEX "lot_account" ON "lot" USING btree ("account","pool","expires_at");--> statement-breakpoint
CREATE INDEX "lot_owned" ON "lot" USING btree ("account") WHERE id not like 'line\_%';--> statement-breakpoint
CREATE INDEX "management_key_account" ON "management_key" USING btree ("account");--> statement-breakpoint
CREATE INDEX "management_key_last_four" ON "management_key" USING btree ("last_four");--> statement-breakpoint
CREATE INDEX "open_call_account" ON "open_call" USING btree ("account");--> statement-breakpoint
CREATE INDEX "open_call_key" ON "open_call" USING btree ("key");--> statement-breakpoint
CREATE INDEX "passkey_account" ON "passkey" USING btree ("account");--> statement-breakpoint
CREATE INDEX "payment_event_at" ON "payment_event" USING btree ("at");--> statement-breakpoint
CREATE INDEX "payment_event_top_up" ON "payment_event" USING btree ("top_up") WHERE top_up is not null;--> statement-breakpoint
CREATE INDEX "payment_event_waiting" ON "payment_event" USING btree ("processor","payment_id") WHERE outcome = 'waiting';--> statement-breakpoint
CREATE INDEX "payment_event_unfinished" ON "payment_event" USING btree ("at") WHERE outcome = 'received';--> statement-breakpoint
CREATE INDEX "payment_reversal_top_up" ON "payment_reversal" USING btree ("top_up");--> statement-breakpoint
CREATE INDEX "payment_reversal_unbooked" ON "payment_reversal" USING btree ("at") WHERE booked = 0;--> statement-breakpoint
CREATE INDEX "request_log_account" ON "request_log" USING btree ("account","at","seq","key","model","code");--> statement-breakpoint
CREATE INDEX "request_log_at" ON "request_log" USING btree ("at","seq","key","model","code");--> statement-breakpoint
CREATE INDEX "request_log_key" ON "request_log" USING btree ("key","at","seq","account","model","code") WHERE key is not null;--> statement-breakpoint
CREATE INDEX "request_log_request" ON "request_log" USING btree ("request_id");--> statement-breakpoint
CREATE INDEX "request_log_code" ON "request_log" USING btree ("account","code","at","seq","key","model") WHERE code is not null;--> statement-breakpoint
CREATE INDEX "request_log_model" ON "request_log" USING btree ("model","at");--> statement-breakpoint
CREATE INDEX "request_log_provider" ON "request_log" USING btree ("provider","at") WHERE provider is not null;--> statement-breakpoint
CREATE INDEX "request_log_fault" ON "request_log" USING btree ("code","at") WHERE code is not null;--> statement-breakpoint
CREATE INDEX "request_log_outcome" ON "request_log" USING btree ((provider is null and status < 500),"at") WHERE code is not null;--> statement-breakpoint
CREATE INDEX "response_expiry" ON "response" USING btree ("kept_until");--> statement-breakpoint
CREATE INDEX "response_account" ON "response" USING btree ("account","size");--> statement-breakpoint
CREATE UNIQUE INDEX "response_part_of" ON "response_part" USING btree ("response","part");--> statement-breakpoint
CREATE INDEX "session_account" ON "session" USING btree ("account");--> statement-breakpoint
CREATE INDEX "session_end" ON "session" USING btree ((CASE WHEN revoked_at IS NULL THEN expires_at ELSE revoked_at END));--> statement-breakpoint
CREATE INDEX "signature_expiry" ON "signature" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "subscription_account" ON "subscription" USING btree ("account","starts_at");--> statement-breakpoint
CREATE INDEX "subscription_of" ON "subscription" USING btree ("source","subscription","starts_at");--> statement-breakpoint
CREATE INDEX "ticket_expiry" ON "ticket" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "ticket_account" ON "ticket" USING btree ("account") WHERE account is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "top_up_reference" ON "top_up" USING btree ("processor","reference") WHERE reference is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "top_up_payment" ON "top_up" USING btree ("processor","payment_id") WHERE payment_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "top_up_lot" ON "top_up" USING btree ("lot") WHERE lot is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "top_up_receipt" ON "top_up" USING btree ("receipt_year","receipt_number") WHERE receipt_number is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "top_up_idempotency" ON "top_up" USING btree ("account","idempotency_key") WHERE idempotency_key is not null;--> statement-breakpoint
CREATE INDEX "top_up_account" ON "top_up" USING btree ("account","created_at");--> statement-breakpoint
CREATE INDEX "top_up_ask" ON "top_up" USING btree ("ask_at") WHERE ask_at is not null;--> statement-breakpoint
CREATE INDEX "top_up_uncredited" ON "top_up" USING btree ("paid_at") WHERE paid_at is not null and credited_at is null;--> statement-breakpoint
CREATE INDEX "usage_day_day" ON "usage_day" USING btree ("day");--> statement-breakpoint
CREATE INDEX "usage_tag_tag" ON "usage_tag" USING btree ("tag","day","value");--> statement-breakpoint
CREATE UNIQUE INDEX "voucher_hash" ON "voucher" USING btree ("hash");--> statement-breakpoint
CREATE INDEX "voucher_created" ON "voucher" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "voucher_ungranted" ON "voucher" USING btree ("redeemed_at") WHERE redeemed_at is not null and lot is null;--> statement-breakpoint
CREATE INDEX "webhook_account" ON "webhook" USING btree ("account");--> statement-breakpoint
CREATE UNIQUE INDEX "webhook_delivery_source" ON "webhook_delivery" USING btree ("webhook","source");--> statement-breakpoint
CREATE INDEX "webhook_delivery_of" ON "webhook_delivery" USING btree ("webhook","at");--> statement-breakpoint
CREATE INDEX "webhook_delivery_due" ON "webhook_delivery" USING btree ("next_at") WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX "webhook_delivery_over" ON "webhook_delivery" USING btree ("at");--> statement-breakpoint
CREATE INDEX "welcome_day" ON "welcome" USING btree ("day");
--> statement-breakpoint
CREATE OR REPLACE FUNCTION insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '% is insert only', TG_TABLE_NAME; END $$;
--> statement-breakpoint
CREATE TRIGGER "journal_insert_only" BEFORE UPDATE OR DELETE OR TRUNCATE ON "journal" FOR EACH STATEMENT EXECUTE FUNCTION insert_only();
--> statement-breakpoint
CREATE TRIGGER "price_version_insert_only" BEFORE UPDATE OR DELETE OR TRUNCATE ON "price_version" FOR EACH STATEMENT EXECUTE FUNCTION insert_only();
--> statement-breakpoint
CREATE TRIGGER "act_insert_only" BEFORE UPDATE OR DELETE OR TRUNCATE ON "act" FOR EACH STATEMENT EXECUTE FUNCTION insert_only();
