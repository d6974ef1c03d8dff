import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execArgv, execPath } from 'node:process';
import { test } from 'node:test';
import { parseDocument } from 'yaml';
import { SystemClock } from '../../internal/clock/index.ts';
import { ExecaRunner, ExecError } from '../../internal/exec/index.ts';
import { hex, identityPolicy, judge, verdictOf } from '../attestation/measured-boot/evidence.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { serveDhcp, type DhcpClient } from './dhcp-server.ts';
import { bootImage, type ImageMachine, type NodeNetwork } from './image-machine.ts';

/**
 * Two machines that boot the same image of `cluster image build` in QEMU become a control plane and a worker whose software is
 * measured, and run pods. After a power cut, the control plane opens its encrypted disk by itself, and the worker with the share that it gets
 * from the control plane; both are Ready again without a person. Once the worker is removed, its disk stays closed. The emulation needs no KVM,
 * and is about ten times slower than a real machine: the story prints how long each step takes.
 *
 * The machines are in a network namespace of their own. The story runs its second half in it.
 */
const PROJECT = join(import.meta.dirname, '../..');
const CLI = join(PROJECT, 'dist/cluster/main.mjs');
const PATH = `${env['PATH'] ?? ''}:/usr/sbin:/sbin`;
const COMMAND_MS = 2_400_000;
const FIRMWARE_REGISTERS = [0, 1, 2, 3, 6, 7];
const DISK_REGISTERS = [4, 7, 9, 11, 12];
const HELLO_PORT = 30080;
const HOST = '198.18.200.1';
type Node = NodeNetwork & DhcpClient;
const CONTROL_PLANE: Node = {
  hostname: 'n1',
  address: '198.18.200.11',
  mac: '52:54:00:00:00:11',
  tap: 'tap-n1',
};
const WORKER: Node = {
  hostname: 'n2',
  address: '198.18.200.12',
  mac: '52:54:00:00:00:12',
  tap: 'tap-n2',
};
const NODES = [CONTROL_PLANE, WORKER];
/** The console of a machine whose agent runs. */
const NOT_A_MEMBER = /Compare it with what/;
/** The firmware has started. */
const STARTS = /BdsDxe/;
const REFUSED = /disk-share-refused/;
const MEMORY_MIB = 5120;
/** Of a command that waits by itself. */
const WAIT = '35m';
const READY_MS = 1_500_000;
const POLL_MS = 5_000;
/** Emulated machines can miss a time limit that real ones do not. The same command continues then. */
const MOST_ROUNDS = 6;
/** Between two rounds: the request of a machine that is to join needs a moment. */
const ROUND_MS = 20_000;
const INSIDE = 'CLUSTER_STORY_DIRECTORY';
const signal = new AbortController().signal;
const clock = new SystemClock();
const commands = new ExecaRunner({ path: PATH });
const log = join(tmpdir(), 'cluster-image-node.log');
/** Prints at once: the runner prints diagnostics of a test when it ends. */
const note = (text: string): Promise<void> => appendFile(log, `=== ${text}\n`);

/** Builds the image outside the namespace, since that may download packages. */
async function prepare(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-node-'));
  const at = (name: string): string => join(directory, name);
  try {
    for (const { hostname } of NODES) {
      await mkdir(at(`tpm-${hostname}`));
      // prettier-ignore
      await run('swtpm_setup', '--tpm2', '--tpmstate', at(`tpm-${hostname}`), '--pcr-banks', 'sha256', '--create-ek-cert');
    }
    await unpackPackages(['ovmf'], at('ovmf'));
    await run(execPath, join(PROJECT, '.ci/build.ts'));
    const { cli } = workspaceOf(directory);
    await cli(
      'config',
      'generate',
      '--name',
      'image',
      '--attestation',
      'tpm',
      '--node',
      CONTROL_PLANE.address,
    );
    // Without integrity, since formatting would write the whole disk; image.story.ts has a disk with integrity.
    // prettier-ignore
    await cli(
      'provisioning', 'generate', '--out', at('provisioning.json'),
      '--state-disk', '/dev/disk/by-partlabel/cluster-state', '--state-disk-pcrs', DISK_REGISTERS.join(','), '--no-state-disk-integrity',
    );
    await buildImage(directory, 'image');
    for (const { hostname } of NODES)
      await run('cp', '--sparse=always', at('image/disk.raw'), at(`${hostname}.raw`));
    // prettier-ignore
    const argv = ['--net', execPath, ...execArgv, import.meta.filename];
    const child = spawn('unshare', argv, { stdio: 'inherit', env: { ...env, [INSIDE]: directory } });
    const [code] = (await once(child, 'exit')) as [number | null];
    assert.equal(code, 0, 'the story in the namespace');
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function runNode(directory: string): Promise<void> {
  await test('a machine with an image becomes a measured control plane with pods, also after a power cut', async (story) => {
    const at = (name: string): string => join(directory, name);
    const { workspace, cli } = workspaceOf(directory);
    const boot = (node: Node, round: number, until: RegExp): Promise<ImageMachine> =>
      bootImage(at(`${node.hostname}-boot-${round}`), {
        ...{ disk: at(`${node.hostname}.raw`), tpm: at(`tpm-${node.hostname}`), network: node },
        ...{ firmware: at('ovmf/usr/share/OVMF'), log, keepsWrites: true, memoryMib: MEMORY_MIB, until },
      });
    const measured = async <T>(what: string, work: Promise<T>): Promise<T> => {
      const startMs = clock.monotonicMs();
      const result = await work;
      const text = `${what}: ${Math.round((clock.monotonicMs() - startMs) / 1000)} s`;
      story.diagnostic(text);
      await note(text);
      return result;
    };
    await connect();
    await using _ = await serveDhcp(HOST, NODES);
    await using machines = new Machines();

    await story.test('init creates a cluster on it whose policy names every register', async () => {
      const machine = await measured(
        'first boot, which formats the disk',
        machines.keep(boot(CONTROL_PLANE, 1, NOT_A_MEMBER)),
      );
      const owner = createPrivateKey(await readFile(join(workspace, 'owner-key.pem'), 'utf8'));
      assert.ok(createPublicKey(owner));
      const seen = verdictOf(await judge(owner, machine.endpoint, identityPolicy()));
      const learned = FIRMWARE_REGISTERS.map((pcr): [string, object] => [
        `pcr${pcr}`,
        { expected: hex(seen.measurements.get(`pcr${pcr}`)) },
      ]);
      await writeFile(at('firmware.json'), JSON.stringify({ registers: Object.fromEntries(learned) }));
      await buildImage(directory, 'values', '--firmware', at('firmware.json'));
      await requireRegisters(join(workspace, 'cluster.yaml'), at('values/reference-values.json'));
      await measured(
        'init until the sample chart is installed',
        untilDone(() => cli('init', '--fingerprint', fingerprintOf(machine))),
      );
      await measured('until the sample chart responds', untilHello(CONTROL_PLANE));
      await measured('until every check of status passes', untilHealthy(cli));
      await requireMeasured(cli, CONTROL_PLANE);
    });

    await story.test('a second machine with the same image joins as a worker and runs pods', async () => {
      const machine = await measured(
        'first boot of the worker',
        machines.keep(boot(WORKER, 1, NOT_A_MEMBER)),
      );
      const fingerprint = fingerprintOf(machine);
      await cli('join', '--node', WORKER.address, '--fingerprint', fingerprint);
      await measured(
        'until the worker is Ready',
        untilDone(() => cli('node', 'approve', fingerprint, '--name', 'n2', '--wait', '--timeout', WAIT)),
      );
      await startOnAll(join(workspace, 'cluster.yaml'));
      await untilDone(() => cli('init'));
      await measured('until the sample chart responds on the worker', untilHello(WORKER));
      await measured('until every check of status passes', untilHealthy(cli));
      await requireMeasured(cli, WORKER);
      await until('a signer has the cluster share of the worker’s disk', async () =>
        /keeps the node share only/.test(await cli('attest', 'approve', 'n2', '--dry-run')),
      );
    });

    await story.test(
      'after a power cut of both, their disks open by themselves, and both nodes are Ready without a person',
      async () => {
        await machines.cutPower();
        await Promise.all(NODES.map((node) => machines.keep(boot(node, 2, STARTS))));
        await measured('until the sample chart responds on both', Promise.all(NODES.map(untilHello)));
        await measured('until every check of status passes', untilHealthy(cli));
      },
    );

    await story.test('the disk of a removed worker stays closed', async () => {
      await machines.cutPower(WORKER);
      await cli('node', 'remove', 'n2', '--lost', '--keep-keys', '--yes');
      await measured('until the removed worker is refused', machines.keep(boot(WORKER, 3, REFUSED)));
      await measured('until every check of status passes', untilHealthy(cli));
    });
  });
}

/** The machines that run. */
class Machines implements AsyncDisposable {
  readonly #running = new Map<string, ImageMachine>();

  async keep(booting: Promise<ImageMachine>): Promise<ImageMachine> {
    const machine = await booting;
    this.#running.set(machine.endpoint, machine);
    return machine;
  }

  /** Cuts the power of one machine, or of all. */
  async cutPower(node?: Node): Promise<void> {
    const all = [...this.#running].filter(([endpoint]) => endpoint.startsWith(`${node?.address ?? ''}`));
    for (const [endpoint, machine] of all) {
      this.#running.delete(endpoint);
      await machine[Symbol.asyncDispose]();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cutPower();
  }
}

function fingerprintOf(machine: ImageMachine): string {
  const [fingerprint] = /sha256:[0-9a-f]{64}/.exec(machine.console()) ?? [];
  assert.ok(fingerprint);
  return fingerprint;
}

/** `cluster verify` judges every register. */
async function requireMeasured(
  cli: (...argv: readonly string[]) => Promise<string>,
  { hostname }: Node,
): Promise<void> {
  const verified = await cli('verify', hostname);
  await note(verified);
  assert.match(verified, /measured/);
}

/** The network between this host and the machines. */
async function connect(): Promise<void> {
  for (const line of [
    'link set lo up',
    'link add bridge type bridge',
    `address add ${HOST}/24 dev bridge`,
    ...NODES.flatMap(({ tap }) => [
      `tuntap add ${tap} mode tap`,
      `link set ${tap} master bridge`,
      `link set ${tap} up`,
    ]),
    'link set bridge up',
    'route add 255.255.255.255 dev bridge',
  ])
    await run('ip', ...line.split(' '));
}

function workspaceOf(directory: string) {
  const workspace = join(directory, 'workspace');
  const cli = (...argv: readonly string[]): Promise<string> =>
    run(execPath, CLI, '--workspace', workspace, ...argv);
  return { workspace, cli };
}

async function buildImage(directory: string, out: string, ...more: readonly string[]): Promise<void> {
  // prettier-ignore
  await run(
    execPath, CLI, 'image', 'build', '--out', join(directory, out), '--provisioning', join(directory, 'provisioning.json'),
    '--agent', join(PROJECT, 'dist/cluster-agent_0.1.0_amd64.deb'), ...more,
  );
}

/** Makes the configuration accept machines with these registers only, and adds the sample chart. */
async function requireRegisters(path: string, values: string): Promise<void> {
  const configuration = parseDocument(await readFile(path, 'utf8'));
  const { registers } = JSON.parse(await readFile(values, 'utf8')) as { registers: Record<string, unknown> };
  const pcrs = Object.keys(registers).map((name) => Number(name.slice('pcr'.length)));
  const policy = ['attestation', 'policy'];
  configuration.setIn([...policy, 'name'], 'image');
  configuration.setIn([...policy, 'profile'], 'measured');
  configuration.setIn([...policy, 'registers'], configuration.createNode(registers));
  configuration.setIn([...policy, 'tpm', 'requiredPcrs'], configuration.createNode(pcrs));
  const chart = {
    name: 'hello',
    chart: 'bundle:hello',
    values: { replicas: 1, service: { nodePort: HELLO_PORT } },
  };
  configuration.setIn(['firstNode', 'name'], 'n1');
  configuration.setIn(['charts'], configuration.createNode([chart]));
  await writeFile(path, String(configuration));
}

/** Makes the sample chart have as many pods as there are nodes. The scheduler prefers a node that has none. */
async function startOnAll(path: string): Promise<void> {
  const configuration = parseDocument(await readFile(path, 'utf8'));
  configuration.setIn(['charts', 0, 'values', 'replicas'], NODES.length);
  await writeFile(path, String(configuration));
}

async function untilDone(command: () => Promise<string>): Promise<void> {
  for (let round = 1; ; round++) {
    try {
      await note(await command());
      return;
    } catch (error) {
      const text = error instanceof ExecError ? error.outputTail : String(error);
      await note(`round ${round}: ${text}`);
      if (round === MOST_ROUNDS) throw error;
      await clock.sleep(ROUND_MS, signal);
    }
  }
}

/** Requests the sample service through the NodePort of a node until a pod on that node responds. */
async function untilHello({ address, hostname }: Node): Promise<void> {
  const url = `http://${address}:${HELLO_PORT}/`;
  await until(`the sample chart responds on ${hostname}`, async () => {
    const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
    return (await response.text()).includes(` node=${hostname} `);
  });
}

/** `cluster status` ends with an error while something is not ready. */
async function untilHealthy(cli: (...argv: readonly string[]) => Promise<string>): Promise<void> {
  await until('every check of status passes', async () => (await cli('status')) !== '');
}

async function until(what: string, isDone: () => Promise<boolean>): Promise<void> {
  const deadlineMs = clock.monotonicMs() + READY_MS;
  let last: unknown;
  for (;;) {
    const done = await isDone().catch((error: unknown) => {
      last = error;
      return false;
    });
    if (done) return;
    assert.ok(clock.monotonicMs() < deadlineMs, `${what}: not within ${READY_MS / 1000} s: ${String(last)}`);
    await clock.sleep(POLL_MS, signal);
  }
}

async function run(...argv: [string, ...string[]]): Promise<string> {
  const { stdout } = await commands.run({
    argv,
    env: { PATH, HOME: homedir() },
    timeoutMs: COMMAND_MS,
    signal,
  });
  return stdout;
}

// At the end, since a class can only be used below it.
const inside = env[INSIDE];
await (inside === undefined ? prepare() : runNode(inside));
