CREATE TABLE "leader" (
	"duty" text COLLATE "C" PRIMARY KEY NOT NULL,
	"owner" text COLLATE "C" NOT NULL,
	"until" bigint NOT NULL
);
--> statement-breakpoint
ALTER TABLE "chain" ADD COLUMN "heartbeat_until" bigint DEFAULT 0 NOT NULL;