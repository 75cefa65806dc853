// Express 5: node express.js PORT BODY bare|memory|redis [REDIS_PORT]
//
// The limiter is configured as the READMEs of express-rate-limit and of rate-limit-redis do it,
// with the header form that is weir's, and the API key as the client.
import { readFileSync } from "node:fs";
import express from "express";
import { ipKeyGenerator, rateLimit } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import { createClient } from "redis";

const [port, bodyFile, kind, redisPort] = process.argv.slice(2);
const body = readFileSync(bodyFile);

let client;
if (kind === "redis") {
  client = createClient({ url: `redis://127.0.0.1:${redisPort}` });
  await client.connect();
}

function limiter(name, limit) {
  return rateLimit({
    windowMs: 15 * 60 * 1000,
    limit,
    standardHeaders: "draft-8",
    legacyHeaders: false,
    identifier: name,
    keyGenerator: (request) => request.get("X-API-Key") ?? ipKeyGenerator(request.ip),
    store: client && new RedisStore({
      prefix: `express:${name}:`,
      sendCommand: (...words) => client.sendCommand(words),
    }),
  });
}

const app = express();
app.disable("x-powered-by");
if (kind !== "bare") {
  app.use("/items", limiter("open", 1e8));
  app.use("/refused", limiter("shut", 1));
}
app.get(["/items", "/refused"], (request, response) => {
  response.type("application/json").send(body);
});
app.listen(Number(port), "127.0.0.1");
