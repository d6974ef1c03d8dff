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
 * A machine that boots an image of `cluster image build` in QEMU becomes a control plane whose software is measured, and runs pods.
 * After its power was cut, it opens its encrypted disk by itself and is Ready again without a person. The emulation needs no
 * KVM, and is about ten times slower than a real machine: the story prints how long each step takes.
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
const NODE: NodeNetwork & DhcpClient = {
  hostname: 'n1',
  address: '198.18.200.11',
  mac: '52:54:00:00:00:11',
  tap: 'tap-n1',
};
/** The console of a machine whose agent runs. */
const NOT_A_MEMBER = /Compare it with what/;
/** The firmware has started. */
const STARTS = /BdsDxe/;
const MEMORY_MIB = 5120;
const READY_MS = 1_500_000;
const POLL_MS = 5_000;
/** Emulated machines can miss a time limit that real ones do not. The same command continues then. */
const MOST_ROUNDS = 6;
const INSIDE = 'CLUSTER_STORY_DIRECTORY';
const signal = new AbortController().signal;
const clock = new SystemClock();
const commands = new ExecaRunner({ path: PATH });
const log = join(tmpdir(), 'cluster-image-node.log');
/** Prints at once: the runner prints diagnostics of a test when it ends. */
const note = (text: string): Promise<void> => appendFile(log, `=== ${text}\n`);

const inside = env[INSIDE];
await (inside === undefined ? prepare() : runNode(inside));

/** Builds the image outside the namespace, since that may download packages. */
async function prepare(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-node-'));
  const at = (name: string): string => join(directory, name);
  try {
    await mkdir(at('tpm'));
    // prettier-ignore
    await run('swtpm_setup', '--tpm2', '--tpmstate', at('tpm'), '--pcr-banks', 'sha256', '--create-ek-cert');
    await unpackPackages(['ovmf'], at('ovmf'));
    await run(execPath, join(PROJECT, '.ci/build.ts'));
    const { cli } = workspaceOf(directory);
    await cli('config', 'generate', '--name', 'image', '--attestation', 'tpm', '--node', NODE.address);
    // Without integrity, since formatting would write the whole disk; image.story.ts has a disk with integrity.
    // prettier-ignore
    await cli(
      'provisioning', 'generate', '--out', at('provisioning.json'),
      '--state-disk', '/dev/disk/by-partlabel/cluster-state', '--state-disk-pcrs', DISK_REGISTERS.join(','), '--no-state-disk-integrity',
    );
    await buildImage(directory, 'image');
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
    const disk = at('image/disk.raw');
    const boot = (name: string, until: RegExp): Promise<ImageMachine> =>
      bootImage(at(name), {
        ...{ disk, firmware: at('ovmf/usr/share/OVMF'), tpm: at('tpm'), log, keepsWrites: true },
        ...{ memoryMib: MEMORY_MIB, network: NODE, until },
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
    await using _ = await serveDhcp(HOST, [NODE]);

    await story.test('init creates a cluster on it whose policy names every register', async () => {
      await using machine = await measured(
        'first boot, which formats the disk',
        boot('boot-1', NOT_A_MEMBER),
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
      const [fingerprint = ''] = /sha256:[0-9a-f]{64}/.exec(machine.console()) ?? [];
      await measured(
        'init until the sample chart is installed',
        untilDone(() => cli('init', '--fingerprint', fingerprint)),
      );
      await measured('until the sample chart responds', untilHello());
      await measured('until every check of status passes', untilHealthy(cli));
      const verified = await cli('verify', 'n1');
      story.diagnostic(verified);
      assert.match(verified, /measured/);
    });

    await story.test(
      'after a power cut the disk opens by itself, and the node is Ready without a person',
      async () => {
        await using _machine = await boot('boot-2', STARTS);
        await measured('until the sample chart responds', untilHello());
        await measured('until every check of status passes', untilHealthy(cli));
      },
    );
  });
}

/** The network between this host and the machine. */
async function connect(): Promise<void> {
  for (const line of [
    'link set lo up',
    'link add bridge type bridge',
    `address add ${HOST}/24 dev bridge`,
    `tuntap add ${NODE.tap} mode tap`,
    `link set ${NODE.tap} master bridge`,
    `link set ${NODE.tap} up`,
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
  const chart = { name: 'hello', chart: 'bundle:hello', values: { service: { nodePort: HELLO_PORT } } };
  configuration.setIn(['firstNode', 'name'], 'n1');
  configuration.setIn(['charts'], configuration.createNode([chart]));
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
    }
  }
}

/** Requests the sample service through its NodePort until it responds. */
async function untilHello(): Promise<void> {
  const url = `http://${NODE.address}:${HELLO_PORT}/`;
  await until('the sample chart responds', async () => {
    const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
    return /pod=hello-\S+ node=n1 /.test(await response.text());
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
