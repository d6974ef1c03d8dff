import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { env } from 'node:process';
import { agentUnit } from '../process/agent-unit.ts';
import { compared } from './compare.ts';
import { ask, createClientEndpoint, dial, KINDS, type Kind } from './endpoints.ts';
import type { ServerOrder } from './memory-server.ts';
import { median, ratioOf, type BenchResult } from '../result.ts';

const ROUNDS = 5;
const FIRST_CONNECTIONS = 150;
const IDLE_CONNECTIONS = 400;

/**
 * Measures the anonymous memory of a server process per idle connection. The process runs with the agent's flags and
 * environment, because they affect how much memory malloc and V8 keep after a handshake. The result also has our own
 * mTLS server, without a target. That server has the same small receive buffer as attested TLS, so the difference
 * between the two is the memory of attestation alone.
 */
export async function idleMemory(): Promise<readonly BenchResult[]> {
  const kinds = [...KINDS, 'own'] as const;
  const found: Record<Kind, number[]> = { mtls: [], atls: [], own: [] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      found[kind].push(await memoryPerConnection(kind));
    }
  }
  return [
    compared('idle memory per connection', found, 1.05, 'KiB'),
    {
      name: 'idle memory per connection, against our own mTLS',
      ...ratioOf(found.atls, found.own),
      detail: `aTLS ${median(found.atls).toFixed(2)} KiB, our mTLS ${median(found.own).toFixed(2)} KiB`,
    },
  ];
}

async function memoryPerConnection(kind: Kind): Promise<number> {
  const unit = agentUnit();
  const child = fork(join(import.meta.dirname, 'memory-server.ts'), [kind], {
    execArgv: ['--expose-gc', ...unit.flags],
    env: { ...env, ...unit.env },
  });
  const [port] = (await once(child, 'message')) as [number];
  const client = await createClientEndpoint(kind);
  await using channels = new AsyncDisposableStack();
  const open = async (count: number): Promise<number> => {
    for (let n = 0; n < count; n++) {
      await ask(channels.use(dial(port, client)));
      // Without this, the result would contain garbage of the handshakes.
      if (n % 20 === 19) await answerTo(child, 'collect');
    }
    return answerTo(child, 'measure');
  };
  // Excludes memory that the process allocates once, at its first connections.
  const before = await open(FIRST_CONNECTIONS);
  const after = await open(IDLE_CONNECTIONS);
  await channels.disposeAsync();
  child.disconnect();
  await once(child, 'exit');
  return (after - before) / IDLE_CONNECTIONS / 1024;
}

async function answerTo(child: ChildProcess, order: ServerOrder): Promise<number> {
  child.send(order);
  const [bytes] = (await once(child, 'message')) as [number];
  return bytes;
}
