CREATE TABLE "imported_turns" (
	"conversation" text COLLATE "C" PRIMARY KEY NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"turns" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
CREATE INDEX "imported_turns_account" ON "imported_turns" USING btree ("account");