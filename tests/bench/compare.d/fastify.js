// Fastify 5: node fastify.js PORT BODY bare|memory|redis [REDIS_PORT]
//
// The limiter is configured as the README and the example of @fastify/rate-limit do it, with the
// API key as the client.
import { readFileSync } from "node:fs";
import rateLimit from "@fastify/rate-limit";
import Fastify from "fastify";
import { Redis } from "ioredis";

const [port, bodyFile, kind, redisPort] = process.argv.slice(2);
const body = readFileSync(bodyFile);

function connect() {
  return new Redis({
    host: "127.0.0.1", port: Number(redisPort), connectTimeout: 500, maxRetriesPerRequest: 1,
  });
}

const app = Fastify();
if (kind !== "bare")
  await app.register(rateLimit, {
    timeWindow: "15 minutes",
    keyGenerator: (request) => request.headers["x-api-key"] ?? request.ip,
    redis: kind === "redis" ? connect() : undefined,
  });

function answer(request, reply) {
  reply.header("Content-Type", "application/json").send(body);
}

app.get("/items", { config: { rateLimit: { max: 1e8 } } }, answer);
app.get("/refused", { config: { rateLimit: { max: 1, groupId: "shut" } } }, answer);
await app.listen({ port: Number(port), host: "127.0.0.1" });
