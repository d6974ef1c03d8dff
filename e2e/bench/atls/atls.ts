import { argv, cpuUsage, stdout } from 'node:process';
import {
  atlsClientUpgrade,
  atlsServerUpgrade,
  REJECT_ALL_RULES,
  RotatingKeys,
  type EvidenceRules,
} from '../../../internal/atls/index.ts';
import type { Issuer } from '../../../internal/attestation/index.ts';
import { createTpmIssuer, TpmValidator } from '../../../internal/attestation/tpm/index.ts';
import { FakeIssuer, FakeValidator } from '../../../internal/testing/atls/index.ts';
import { createTcpPair } from '../../../internal/testing/index.ts';
import { createSwtpmFactory } from '../../../internal/testing/tpm/swtpm.ts';
import { Tpm, type TransportSource } from '../../../internal/tpm/index.ts';
import { ask, clock, createEndpoints, createServer, dial, KINDS, never, type Compared } from './endpoints.ts';
import { compared, type PerKind } from './compare.ts';
import { idleMemory } from './memory.ts';
import { formatResults, isWithin, type BenchResult } from '../result.ts';

const WARM_UP_ROUNDS = 10;
const ROUNDS = 15;
/**
 * Calls need many rounds: the time of a single round varies by 1/6, and the bench must detect a difference of
 * 1/20.
 */
const ROUNDS_OF_CALLS = 75;
const CONNECTIONS_PER_ROUND = 20;
const CALLS_PER_ROUND = 1_000;
const CALLS_AT_ONCE = 50;
const PEERS = 64;
const QUOTE_MS = 100;

/** Measures the cost of attested TLS against plain mTLS over the same gRPC, and the gain of shared quotes. */
export async function runAtlsBench(): Promise<readonly BenchResult[]> {
  return [await connectionSetUp(), await unaryCalls(), ...(await idleMemory()), await batchedQuotes()];
}

/**
 * CPU time of both ends for one connection: new channel, handshake, first unary reply, close. The variants
 * alternate.
 */
async function connectionSetUp(): Promise<BenchResult> {
  await using both = await startBoth();
  const costs = await alternately(async (kind) => {
    const { port, client } = both[kind];
    const costMs = await cpuMs(async () => {
      for (let n = 0; n < CONNECTIONS_PER_ROUND; n++) {
        using channel = dial(port, client);
        await ask(channel);
      }
    });
    return costMs / CONNECTIONS_PER_ROUND;
  });
  return compared('connection set-up, CPU of both ends', costs, 1.4, 'ms');
}

/**
 * CPU time of both ends for one call on an open connection. Each round opens a new connection, because
 * connections differ in speed.
 */
async function unaryCalls(): Promise<BenchResult> {
  await using both = await startBoth();
  const costs = await alternately(async (kind) => {
    using channel = dial(both[kind].port, both[kind].client);
    await ask(channel);
    const costMs = await cpuMs(async () => {
      for (let n = 0; n < CALLS_PER_ROUND; n += CALLS_AT_ONCE) {
        await Promise.all(Array.from({ length: CALLS_AT_ONCE }, () => ask(channel)));
      }
    });
    return costMs / CALLS_PER_ROUND;
  }, ROUNDS_OF_CALLS);
  return compared('unary call afterwards, CPU of both ends', costs, 1.05, 'ms');
}

/**
 * 64 machines ask one machine for evidence, and its TPM takes 100 ms for a quote. Compares shared quotes with
 * one quote for each machine.
 */
async function batchedQuotes(): Promise<BenchResult> {
  await using factory = await createSwtpmFactory();
  await using machine = await factory.start();
  await using tpm = new Tpm({ source: slowQuotes(machine.source), clock });
  const shared = createTpmIssuer({ tpm, pcrs: [10] });
  const alone = oneAtATime(shared);
  await shared.issue(Buffer.alloc(64), never); // Not measured: the first call also derives the attestation key.
  const sharedMs = await timeToIssueAll(shared);
  const aloneMs = await timeToIssueAll(alone);
  const [overAtls, overAtlsAlone] = [await timeToAttestAll(shared), await timeToAttestAll(alone)];
  return {
    name: `${PEERS} peers ask one TPM of ${QUOTE_MS} ms, quotes shared`,
    value: aloneMs / sharedMs,
    unit: '×',
    limit: 7,
    wanted: 'at least',
    detail: `${rate(sharedMs)} shared, ${rate(aloneMs)} alone; whole connections ${rate(overAtls)}, ${rate(overAtlsAlone)}`,
  };
}

function rate(tookMs: number): string {
  return `${((PEERS / tookMs) * 1000).toFixed(0)}/s`;
}

async function timeToIssueAll(issuer: Issuer): Promise<number> {
  const startMs = clock.monotonicMs();
  await Promise.all(Array.from({ length: PEERS }, (_, n) => issuer.issue(Buffer.alloc(64, n), never)));
  return clock.monotonicMs() - startMs;
}

async function timeToAttestAll(issuer: Issuer): Promise<number> {
  const client = { variant: 'tpm', key: Buffer.alloc(32, 1) } as const;
  const server = atlsServerUpgrade({
    trust: {
      trust: 'mutual',
      shows: [issuer],
      accepts: [new FakeValidator(client)],
      rules: () => REJECT_ALL_RULES,
    },
    context: 'bench',
    keys: new RotatingKeys({ clock }),
    clock,
  });
  const peer = atlsClientUpgrade({
    trust: {
      trust: 'mutual',
      shows: [new FakeIssuer(client)],
      accepts: [new TpmValidator()],
      rules: () => TPM_RULES,
    },
    context: 'bench',
    keys: new RotatingKeys({ clock }),
    clock,
  });
  const pairs = await Promise.all(Array.from({ length: PEERS }, (_, n) => createTcpPair(`127.0.1.${n + 1}`)));
  const startMs = clock.monotonicMs();
  await Promise.all(pairs.flatMap((tcp) => [server(tcp.server, never), peer(tcp.client, never)]));
  const tookMs = clock.monotonicMs() - startMs;
  for (const tcp of pairs) tcp[Symbol.dispose]();
  return tookMs;
}

const TPM_RULES: EvidenceRules = {
  policy: {
    version: 'bench',
    registers: new Map(),
    machines: 'any',
    tpm: {
      attestationKeys: 'enrolling',
      requiredPcrs: [10],
      requireSafeClock: false,
      eventLog: 'optional',
      loggedPcrs: [],
    },
  },
  collateral: { tpm: { attestationKeys: new Map() } },
};

/** TPM 2.0 Part 2, 6.5.2. */
const TPM_CC_QUOTE = 0x158;

/**
 * A TPM that is as slow as hardware: a quote takes 100 ms, with a software TPM only 0.6 ms. Like hardware, it can be
 * used by several programs at a time.
 */
function slowQuotes(source: TransportSource): TransportSource {
  return {
    address: source.address,
    canStayOpen: true,
    open: async (signal) => {
      const transport = await source.open(signal);
      return {
        transmit: async (command, alive) => {
          if (Buffer.from(command).readUInt32BE(6) === TPM_CC_QUOTE) await clock.sleep(QUOTE_MS, alive);
          return transport.transmit(command, alive);
        },
        [Symbol.asyncDispose]: () => transport[Symbol.asyncDispose](),
      };
    },
  };
}

/** An issuer that does not share quotes: each call waits for all earlier calls. */
function oneAtATime(issuer: Issuer): Issuer {
  let last: Promise<unknown> = Promise.resolve();
  return {
    variant: issuer.variant,
    issue: (binding, signal) => {
      const mine = last.then(() => issuer.issue(binding, signal));
      last = mine.catch(() => undefined);
      return mine;
    },
  };
}

async function startBoth() {
  const [mtls, atls] = [await createEndpoints('mtls'), await createEndpoints('atls')];
  const servers = { mtls: createServer(mtls.server), atls: createServer(atls.server) };
  return {
    mtls: { port: await servers.mtls.listen('127.0.0.1', 0), client: mtls.client },
    atls: { port: await servers.atls.listen('127.0.0.1', 0), client: atls.client },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([servers.mtls.close(0), servers.atls.close(0)]);
    },
  };
}

/**
 * Measures both variants alternately, so that a busy machine slows both. The first rounds only warm up the
 * compiler and do not count.
 */
async function alternately(
  slice: (kind: Compared) => Promise<number>,
  rounds = ROUNDS,
): Promise<PerKind<number[]>> {
  const found: PerKind<number[]> = { mtls: [], atls: [] };
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
      const cost = await slice(kind);
      if (round >= 0) found[kind].push(cost);
    }
  }
  return found;
}

async function cpuMs(work: () => Promise<void>): Promise<number> {
  const before = cpuUsage();
  await work();
  const { user, system } = cpuUsage(before);
  return (user + system) / 1000;
}

if (argv[1] === import.meta.filename) {
  const results = await runAtlsBench();
  stdout.write(`${formatResults(results)}\n`);
  if (!results.every(isWithin)) process.exitCode = 1;
}
