// Works off graphile-worker's queue for the benchmark, which speaks to it in lines: it says "ready" when it is
// loaded, waits for "begin", tells how many entries it has delivered, and ends after "stop".
//
//   node worker.cjs migrate
//   node worker.cjs work '{"concurrentJobs": 24, ...}'
//
// The connection string is in DATABASE_URL.
"use strict";

const readline = require("node:readline");
const { Logger, run, runMigrations } = require("graphile-worker");

const connectionString = process.env.DATABASE_URL;
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const tell = (line) => process.stdout.write(`${line}\n`);

async function work(settings) {
  let delivered = 0;
  let told = 0;
  let runner;
  const telling = setInterval(() => {
    if (delivered !== told) {
      told = delivered;
      tell(told);
    }
  }, 10);
  tell("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "begin") {
      runner = await run({
        preset: { worker: { connectionString, ...settings } },
        logger,
        noHandleSignals: true,
        taskList: {
          entry: async () => {
            delivered += 1;
          },
        },
      });
    } else if (line === "stop") {
      break;
    }
  }
  clearInterval(telling);
  if (runner) await runner.stop();
  tell(delivered);
}

const [, , command, settings] = process.argv;
const ended = command === "migrate" ? runMigrations({ connectionString, logger }) : work(JSON.parse(settings));
ended.then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
