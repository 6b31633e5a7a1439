CREATE UNLOGGED TABLE "attempt_count" (
	"kind" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"count" bigint NOT NULL,
	"at" bigint NOT NULL,
	CONSTRAINT "attempt_count_kind_name_pk" PRIMARY KEY("kind","name")
);
--> statement-breakpoint
CREATE UNLOGGED TABLE "rate" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"level" bigint NOT NULL,
	"per_minute" bigint NOT NULL,
	"at" bigint NOT NULL
);
--> statement-breakpoint
CREATE INDEX "attempt_count_at" ON "attempt_count" USING btree ("at");--> statement-breakpoint
CREATE INDEX "rate_at" ON "rate" USING btree ("at");