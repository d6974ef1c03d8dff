import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, mkdir, mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { decryptAge, parseRecoveryKey } from '../internal/backup/index.ts';
import { SystemClock } from '../internal/clock/index.ts';
import { Secret } from '../internal/secret/index.ts';
import {
  answerConsoleChallenge,
  decodeTyped,
  diskStateOf,
  isSealedShare,
  slotKey,
  type RecordContent,
} from '../internal/statedisk/index.ts';
import { createSwtpmFactory, type Swtpm, type SwtpmFactory } from '../internal/testing/index.ts';
import { FakeCluster } from '../internal/testing/cluster/fake-cluster.ts';
import { extendPcr } from '../internal/tpm/index.ts';
import { unsealShare } from './disk/disk-seals.ts';
import type { DiskPorts, DiskSettings } from './disk/index.ts';
import { ISSUE_PATH } from './machineservice/console.ts';

const signal = new AbortController().signal;
/** A key pair of age-keygen(1). */
const OWNER = {
  recipient: 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0',
  key: new Secret('AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R'),
};
const PCRS = [7, 11];
const RECORDS_BYTES = 2 ** 24;
/** The agent uses fixed paths, so it gets a root, devices and a network of its own. `$DISKS` is the directory of the disk. */
const SET_UP = [
  'mkdir -p "$DISKS/old" "$DISKS/own"',
  'mount --rbind /dev "$DISKS/old"',
  'mount -t tmpfs tmpfs /dev',
  'mkdir /dev/mapper /dev/disk',
  'for each in null random urandom; do : > /dev/$each; mount --bind "$DISKS/old/$each" /dev/$each; done',
  'mount --bind "$DISKS/own" /dev/disk',
  'ln -s /proc/self/fd /dev/fd',
  'for each in /etc /run /var/lib /opt; do mount -t tmpfs tmpfs $each; done',
  'mkdir -p /etc/cluster /var/log/pods',
  'printf %s "$PROVISIONING" > /etc/cluster/provisioning.json',
  'ip link set lo up',
  'ip link add join0 type veth peer name join1',
  'ip address add 198.18.0.9/24 dev join0 && ip link set join0 up && ip link set join1 up',
  'mount --bind "$DISKS" /usr/local/sbin',
  'echo 1 > "$DISKS/own/forwards" && mount --bind "$DISKS/own/forwards" /proc/sys/net/ipv4/ip_forward',
  'if [ -n "$JOIN" ]; then "$NODE" "$RELAY" "$JOIN" & fi',
  'exec "$@"',
].join(' && ');
const RELAY_PORT = 19_090;
/** Lets the agent in its own network reach the cluster of the test: forwards a port to a socket file. */
const RELAY = `
import { connect, createServer } from 'node:net';
createServer((from) => {
  const to = connect(process.argv[2]);
  from.pipe(to).pipe(from);
  for (const each of [from, to]) each.on('error', () => (from.destroy(), to.destroy()));
}).listen(${RELAY_PORT}, '127.0.0.1');
const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(), 100);
`;
const SHARE = new Uint8Array(32).map((_, at) => 200 - at);
/**
 * The kernel may have no device mapper: the mapping is a file, and the file system a tmpfs. cryptsetup itself formats, and its header has
 * the keys.
 */
const PROGRAMS: Readonly<Record<string, string>> = {
  cryptsetup: [
    'case " $* " in',
    '*" --test-passphrase "*) ;;',
    '*" open "*) cat > /dev/null; : > /dev/mapper/cluster-state; exit;;',
    'esac',
    'exec /usr/sbin/cryptsetup "$@"',
  ].join('\n'),
  'mkfs.ext4': 'exit 0',
  mount: 'if [ "$2" = ext4 ]; then shift 5; exec /bin/mount -t tmpfs tmpfs "$1"; fi\nexec /bin/mount "$@"',
  'systemd-notify': 'exit 0',
  systemctl: 'exit 0',
  agetty: 'exit 0',
  // A node needs them. They are not installed where the tests run.
  ...{ iptables: 'exit 0', conntrack: 'exit 0', ethtool: 'exit 0', modprobe: 'exit 0' },
};

let factory: SwtpmFactory;
let directory: string;
beforeAll(async () => void (factory = await createSwtpmFactory()));
afterAll(async () => void (await factory[Symbol.asyncDispose]()));
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'start-again-'));
});
afterEach(async () => void (await rm(directory, { recursive: true })));

test('the agent starts again in the same process once the state disk is open, and has no key of it in its memory and its log then', async () => {
  await using swtpm = await factory.start();
  const first = await withAgent(swtpm, async (agent, seen) => {
    await until(agent, seen, /waiting for an owner"/);
    return { all: [...(await memoryOf(agent)), Buffer.from(seen.join('\n'))], outcomes: outcomesOf(seen) };
  });
  expect(first.outcomes).toEqual(['formatted', 'open']);
  expect(await search(swtpm, first.all)).toEqual({ searched: 12, found: [] });
  const second = await withAgent(swtpm, async (agent, seen) => {
    await until(agent, seen, /waiting for an owner"/);
    return { all: [...(await memoryOf(agent)), Buffer.from(seen.join('\n'))], outcomes: outcomesOf(seen) };
  });
  expect(second.outcomes).toEqual(['opened', 'open']);
  expect(await search(swtpm, second.all)).toEqual({ searched: 12, found: [] });
  await using tpm = swtpm.open();
  await tpm.use(signal, (connection) =>
    extendPcr(connection, { pcr: 11, hash: 'sha256', digest: new Uint8Array(32).fill(1) }, signal),
  );
  await tpm[Symbol.asyncDispose]();

  const recovered = await withAgent(swtpm, async (agent, seen) => {
    await until(agent, seen, /waiting for an owner to recover/);
    await typeCode(agent);
    await until(agent, seen, /waiting for an owner"/);
    return { all: [...(await memoryOf(agent)), Buffer.from(seen.join('\n'))], outcomes: outcomesOf(seen) };
  });
  expect(recovered.outcomes).toEqual(['recovered', 'open']);
  expect(await search(swtpm, recovered.all)).toEqual({ searched: 12, found: [] });
}, 180_000);

test('the agent of a worker starts again in the same process once it has given its cluster share to the signers, and has no key of the disk in its memory then', async () => {
  const clock = new SystemClock();
  // The TPM of the other test remembers its disk.
  await using other = await createSwtpmFactory();
  await using swtpm = await other.start();
  await using cluster = await FakeCluster.start(clock);
  cluster.behaviour.roles = [];
  cluster.behaviour.diskShare = (request, session) =>
    Promise.resolve(cluster.diskShareFor(request, session, { share: SHARE }));
  await using socket = await serveOn(join(directory, 'join.sock'), cluster.endpoint);
  const worker = await withAgent(
    swtpm,
    async (agent, seen) => {
      await until(agent, seen, /cluster share of the state disk given to the signers/);
      await untilStarted(agent, seen, 3);
      return { all: [...(await memoryOf(agent)), Buffer.from(seen.join('\n'))], outcomes: outcomesOf(seen) };
    },
    { join: socket.path, owner: cluster.ownerKey },
  );
  expect(worker.outcomes).toEqual(['formatted', 'open', 'open']);
  expect(await search(swtpm, worker.all)).toEqual({ searched: 12, found: [] });
}, 180_000);

/** Forwards connections at a socket file. */
async function serveOn(path: string, endpoint: string): Promise<AsyncDisposable & { readonly path: string }> {
  const { hostname, port } = new URL(`tcp://${endpoint}`);
  const open = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(Number(port), hostname);
    from.pipe(to).pipe(from);
    for (const each of [from, to]) open.add(each.on('error', () => (from.destroy(), to.destroy())));
  });
  await once(server.listen(path), 'listening');
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      for (const each of open) each.destroy();
      await once(server.close(), 'close');
    },
  };
}

/** Waits until the program that has found the disk so often is a member. */
async function untilStarted(agent: ChildProcess, seen: readonly string[], times: number): Promise<void> {
  const found = (): number => outcomesOf(seen).length;
  const running = (): number => seen.filter((line) => /"to":"Running"/.test(line)).length;
  await untilTrue(agent, seen, `${times} starts`, () => found() === times && running() === times - 1);
}

function outcomesOf(seen: readonly string[]): readonly string[] {
  return seen.flatMap((line) => /"state disk ready".*"outcome":"(\w+)"/.exec(line)?.[1] ?? []);
}

/** Reads the challenge above the login prompt of the machine, and writes the code of the owner into the pipe, as root there does. */
async function typeCode({ pid }: ChildProcess): Promise<void> {
  const clock = new SystemClock();
  const root = `/proc/${pid}/root`;
  let groups: readonly string[] = [];
  while (groups.length === 0) {
    await clock.sleep(20, signal);
    const text = await readFile(root + ISSUE_PATH, 'utf8').catch(() => '');
    groups = text.match(/^ {2}[0-9A-Z]{5}(?:-[0-9A-Z]{5})+$/gm) ?? [];
  }
  const challenge = decodeTyped('challenge', groups.join(' '));
  if (challenge.kind === 'mistyped') throw new Error(challenge.why);
  const code = answerConsoleChallenge(challenge.bytes, parseRecoveryKey(OWNER.key).secret);
  await appendFile(`${root}/run/cluster/locked-disk/code`, `${code?.reveal()}\n`);
}

/** A started agent, and the lines that it and its programs print. */
async function withAgent<T>(
  swtpm: Swtpm,
  use: (agent: ChildProcess, seen: readonly string[]) => Promise<T>,
  cluster?: { readonly join: string; readonly owner: Uint8Array },
): Promise<T> {
  const at = (name: string): string => join(directory, name);
  for (const [name, script] of Object.entries(PROGRAMS)) {
    await writeFile(at(name), `#!/bin/sh\n${script}\n`);
    await chmod(at(name), 0o755);
  }
  await writeFile(at('relay.mjs'), RELAY);
  await mkdir(at('own'), { recursive: true });
  await writeFile(at('own/state'), '', { flag: 'a' });
  await truncate(at('own/state'), 64 * 2 ** 20);
  const provisioning = {
    ...{ version: 1, platform: 'local', address: '198.18.0.9', joinEndpoints: [`127.0.0.1:${RELAY_PORT}`] },
    kubelet: { failCgroupV1: false },
    ownerKeys: [Buffer.from(cluster?.owner ?? Buffer.alloc(32, 1)).toString('base64')],
    tpm: { kind: 'socket', path: swtpm.socketPath },
    stateDisk: {
      ...{ device: '/dev/disk/state', pcrs: PCRS, integrity: false },
      recoveryRecipients: [OWNER.recipient],
    },
  };
  const main = join(import.meta.dirname, 'main.ts');
  // prettier-ignore
  const argv = ['--mount', '--net', 'sh', '-c', SET_UP, 'sh', process.execPath, '--no-warnings', main];
  const agent = spawn('unshare', argv, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: `${directory}:${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
      DISKS: directory,
      ...{ NODE: process.execPath, RELAY: at('relay.mjs'), JOIN: cluster?.join ?? '' },
      ...{ PROVISIONING: JSON.stringify(provisioning), NOTIFY_SOCKET: '/run/systemd/notify' },
    },
  });
  const seen: string[] = [];
  createInterface({ input: agent.stdout }).on('line', (line) => seen.push(line));
  try {
    return await use(agent, seen);
  } finally {
    if (agent.exitCode === null && agent.kill('SIGKILL')) await once(agent, 'exit');
  }
}

async function until(agent: ChildProcess, seen: readonly string[], pattern: RegExp): Promise<void> {
  await untilTrue(agent, seen, pattern.source, () => seen.some((line) => pattern.test(line)));
}

async function untilTrue(
  agent: ChildProcess,
  seen: readonly string[],
  what: string,
  isTrue: () => boolean,
): Promise<void> {
  const clock = new SystemClock();
  const endMs = clock.monotonicMs() + 60_000;
  while (!isTrue()) {
    if (agent.exitCode !== null || clock.monotonicMs() > endMs)
      throw new Error(`not seen: ${what}\n${seen.join('\n')}`);
    await clock.sleep(20, signal);
  }
}

/** All memory that the process can write. */
async function memoryOf({ pid }: ChildProcess): Promise<readonly Buffer[]> {
  const maps = await readFile(`/proc/${pid}/maps`, 'utf8');
  await using memory = await open(`/proc/${pid}/mem`);
  const regions = maps.matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw.*$/gm);
  const read: Buffer[] = [];
  for (const [, from = '', to = ''] of regions) {
    const start = BigInt(`0x${from}`);
    const region = Buffer.alloc(Number(BigInt(`0x${to}`) - start));
    // A region may have gone, or be one that the kernel does not show.
    const { bytesRead } = await memory.read(region, 0, region.length, start).catch(() => ({ bytesRead: 0 }));
    read.push(region.subarray(0, bytesRead));
  }
  // Memory that could not be read would have no key either.
  expect(read.some((region) => region.includes(OWNER.recipient))).toBe(true);
  return read;
}

/** Looks for each key of the disk in this and on the disk itself, in the forms in which a program may have written it. */
async function search(swtpm: Swtpm, memoryAndLog: readonly Buffer[]) {
  const disk = await readFile(join(directory, 'own/state'));
  const content = recordOf(disk);
  await using tpm = swtpm.open();
  const ports = { tpm } as unknown as DiskPorts;
  const settings = { pcrs: PCRS, approvalKey: undefined } as unknown as DiskSettings;
  const [node, cluster] = [
    await unsealShare(ports, settings, { which: 'node', content }, signal),
    isSealedShare(content.clusterShare)
      ? await unsealShare(ports, settings, { which: 'cluster', content }, signal)
      : new Secret(SHARE),
  ];
  const keys = {
    node,
    cluster,
    slot: slotKey({ node, cluster }, content.uuid),
    recovery: await recoveryKeyOf(content),
  };
  const forms = Object.entries(keys).flatMap(([name, key]) => {
    const bytes = Buffer.from(key.reveal());
    return [bytes, bytes.toString('hex'), bytes.toString('base64')].map((form) => ({ name, form }));
  });
  const found = forms.filter(({ form }) => [...memoryAndLog, disk].some((region) => region.includes(form)));
  return { searched: forms.length, found: found.map(({ name }) => name) };
}

function recordOf(disk: Buffer): RecordContent {
  const state = diskStateOf(disk.subarray(0, RECORDS_BYTES));
  if (state.kind !== 'ready') throw new Error(state.kind);
  return state.record.content;
}

async function recoveryKeyOf({ recovery }: RecordContent): Promise<Secret<Uint8Array>> {
  if (recovery.kind !== 'key') throw new Error('the owners have shares');
  const { sealed } = recovery;
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(sealed);
  }
  const parts = await Array.fromAsync(decryptAge(bytes(), [parseRecoveryKey(OWNER.key)]));
  return new Secret(new Uint8Array(Buffer.concat(parts)));
}
