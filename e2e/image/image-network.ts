import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execArgv, execPath } from 'node:process';
import type { DhcpClient } from './dhcp-server.ts';
import type { NodeNetwork } from './image-machine.ts';
import { run } from './image-steps.ts';

/** The address of this host on the network of the machines. */
export const HOST = '198.18.200.1';
const INSIDE = 'CLUSTER_STORY_DIRECTORY';

/** A machine with an address and a name. */
export type Node = NodeNetwork & DhcpClient;

/** The machine with this number on the network: "n1", 198.18.200.11 … */
export function nodeOf(number: number): Node {
  const hostname = `n${number}`;
  return {
    hostname,
    address: `198.18.200.${10 + number}`,
    mac: `52:54:00:00:00:1${number}`,
    tap: `tap-${hostname}`,
  };
}

/**
 * Runs a story in a network namespace of its own. `prepare` builds outside, since that may download packages. This program then starts itself again
 * in the namespace, with the same directory.
 */
export async function runOnNetwork(
  program: string,
  story: {
    readonly prepare: (directory: string) => Promise<void>;
    readonly run: (directory: string) => Promise<void>;
  },
): Promise<void> {
  const inside = env[INSIDE];
  if (inside !== undefined) return story.run(inside);
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-'));
  try {
    await story.prepare(directory);
    const argv = ['--net', execPath, ...execArgv, program];
    const child = spawn('unshare', argv, { stdio: 'inherit', env: { ...env, [INSIDE]: directory } });
    const [code] = (await once(child, 'exit')) as [number | null];
    assert.equal(code, 0, 'the story in the namespace');
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Makes the network between this host and the machines. */
export async function connect(nodes: readonly Node[]): Promise<void> {
  for (const line of [
    'link set lo up',
    'link add bridge type bridge',
    `address add ${HOST}/24 dev bridge`,
    ...nodes.flatMap(({ tap }) => [
      `tuntap add ${tap} mode tap`,
      `link set ${tap} master bridge`,
      `link set ${tap} up`,
    ]),
    'link set bridge up',
    'route add 255.255.255.255 dev bridge',
  ])
    await run('ip', ...line.split(' '));
}
