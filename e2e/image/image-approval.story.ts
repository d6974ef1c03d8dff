import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appendFile, open, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseDocument } from 'yaml';
import { ExecError } from '../../internal/exec/index.ts';
import { LAYOUT } from '../../internal/luks/index.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { serveDhcp } from './dhcp-server.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';
import { connect, HOST, nodeOf, runOnNetwork } from './image-network.ts';
import {
  AGENT_PACKAGE,
  ASKS_AGAIN,
  buildImage,
  buildPrograms,
  challengeOf,
  cliOf,
  clock,
  codeOf,
  copy,
  DISK_REGISTERS,
  fingerprintOf,
  makeTpm,
  NOT_A_MEMBER,
  run,
  SHOWS_CHALLENGE,
  SLOTS,
  STATE_DEVICE,
  statePartition,
  until,
} from './image-steps.ts';

/**
 * A control plane with an image gets another image. One that nobody has approved stays locked, and says which registers have changed; wrong codes at its
 * console change nothing on the disk. With an image that an owner has approved over the network before, the disk opens at the next boot by itself.
 */
const NODE = nodeOf(1);
const MEMORY_MIB = 5120;
/** The firmware has started. */
const STARTS = /BdsDxe/;
/** Each of them in a cluster of its own. */
const OTHER_OWNERS = ['a', 'b', 'c'];
const MOST_ROUNDS = 3;
const log = join(tmpdir(), 'cluster-image-approval.log');
/** Prints at once: the runner prints diagnostics of a test when it ends. */
const note = (text: string): Promise<void> => appendFile(log, `=== ${text}\n`);

async function prepare(directory: string): Promise<void> {
  const at = (name: string): string => join(directory, name);
  await makeTpm(at('tpm'));
  await unpackPackages(['ovmf'], at('ovmf'));
  await buildPrograms();
  const cli = cliOf(at('workspace'));
  for (const each of [cli, ...OTHER_OWNERS.map((name) => cliOf(at(name)))])
    await each('config', 'generate', '--name', 'image', '--attestation', 'tpm', '--node', NODE.address);
  // prettier-ignore
  await cli(
    'provisioning', 'generate', '--out', at('provisioning.json'), '--state-disk', STATE_DEVICE,
    '--state-disk-pcrs', DISK_REGISTERS.join(','), '--no-state-disk-integrity',
  );
  const provisioning = at('provisioning.json');
  await buildImage(cli, { out: at('one'), provisioning });
  // The agent of a later release, which is the same program with one more file.
  await run('dpkg-deb', '-R', AGENT_PACKAGE, at('agent'));
  await writeFile(at('agent/usr/lib/cluster/later'), '');
  await run('dpkg-deb', '-b', '-Znone', '--root-owner-group', at('agent'), at('later.deb'));
  await buildImage(cli, { out: at('two'), provisioning, agent: at('later.deb') });
  await copy(at('one/disk.raw'), at('disk.raw'));
}

async function runApproval(directory: string): Promise<void> {
  await test('a changed image opens the state disk only if an owner has approved it', async (story) => {
    const at = (name: string): string => join(directory, name);
    const disk = at('disk.raw');
    const cli = cliOf(at('workspace'));
    const boot = (name: string, until: RegExp): Promise<ImageMachine> =>
      bootImage(at(name), {
        ...{ disk, tpm: at('tpm'), network: NODE, firmware: at('ovmf/usr/share/OVMF'), log },
        ...{ keepsWrites: true, memoryMib: MEMORY_MIB, until },
      });
    const startMs = clock.monotonicMs();
    const spent = (what: string): Promise<void> =>
      note(`${what}: ${Math.round((clock.monotonicMs() - startMs) / 1000)} s after the start`);
    const untilHealthy = (): Promise<void> =>
      until('every check of status passes', async () => (await cli('status')) !== '');
    /** Puts an image into the first slot that systemd-boot tries. */
    const install = async (file: string, name: string): Promise<void> => {
      await run('mcopy', '-o', '-i', `${disk}@@1M`, file, `${SLOTS}/${name}`);
    };
    await connect([NODE]);
    await using _ = await serveDhcp(HOST, [NODE]);

    await story.test('an owner approves the next image of a control plane over the network', async () => {
      await using machine = await boot('boot-1', NOT_A_MEMBER);
      const path = at('workspace/cluster.yaml');
      const configuration = parseDocument(await readFile(path, 'utf8'));
      configuration.setIn(['firstNode', 'name'], NODE.hostname);
      await writeFile(path, String(configuration));
      const fingerprint = `sha256:${fingerprintOf(machine)}`;
      await continued(() => cli('init', '--fingerprint', fingerprint));
      await spent('init');
      await untilHealthy();
      await spent('healthy');
      const approve = ['attest', 'approve', NODE.hostname, '--registers', at('two/reference-values.json')];
      const shown = await cli(...approve, '--dry-run');
      await note(shown);
      for (const pcr of [4, 9, 11]) assert.match(shown, new RegExp(`reference-values\\.json +${pcr} `));
      await continued(() => cli(...approve, '--yes'));
    });

    await story.test(
      'an image that nobody has approved stays locked, and says which registers changed',
      async () => {
        const image = await readFile(at('one/boot.efi'));
        await writeFile(at('unapproved.efi'), withOtherCommandLine(image));
        await install(at('unapproved.efi'), 'cluster-3+3.efi');
        await using machine = await boot('boot-2', SHOWS_CHALLENGE);
        await spent('locked');
        assert.match(machine.console(), /changed: pcr4, pcr9, pcr11, pcr12/);
        const partition = await statePartition(disk);
        const before = await digestOf(disk, partition);
        const refusals = (): number => machine.console().match(/machineservice-code-refused/g)?.length ?? 0;
        for (const [round, name] of OTHER_OWNERS.entries()) {
          const answer = await cliOf(at(name))(
            'recover',
            'disk',
            'n1',
            '--console',
            challengeOf(machine),
            '--yes',
          );
          machine.type(`${codeOf(answer)}\n`);
          await until('the code is refused', async () => Promise.resolve(refusals() === round + 1));
          await until('the console asks again', async () => {
            const lines = machine.console().split('\n');
            const refusedAt = lines.findLastIndex((line) => line.includes('machineservice-code-refused'));
            return Promise.resolve(lines.slice(refusedAt).some((line) => ASKS_AGAIN.test(line)));
          });
        }
        assert.equal(await digestOf(disk, partition), before, 'header and records of the disk');
        assert.doesNotMatch(machine.console(), /The state disk is open/);
      },
    );

    await story.test('the approved image opens the disk by itself, and the node is Ready', async () => {
      await run('mdel', '-i', `${disk}@@1M`, `${SLOTS}/cluster-3*.efi`);
      await install(at('two/boot.efi'), 'cluster-2+3.efi');
      await using machine = await boot('boot-3', STARTS);
      await untilHealthy();
      await spent('healthy with the approved image');
      assert.doesNotMatch(machine.console(), /disk-locked|not in a cluster yet/);
      await until('the agent confirms the image', async () =>
        (await run('mdir', '-b', '-i', `${disk}@@1M`, SLOTS)).includes('/cluster-2.efi'),
      );
      const ended = await cli('attest', 'approve', NODE.hostname, '--dry-run');
      await note(ended);
      assert.match(ended, /No longer approved: 1 of the 2 sets/);
      await continued(() => cli('attest', 'approve', NODE.hostname, '--yes'));
    });
  });
}

/** A setting of systemd that changes only what it prints. */
function withOtherCommandLine(image: Buffer): Buffer {
  const [from, to] = ['systemd.show_status=0', 'systemd.show_status=1'];
  const at = image.indexOf(from);
  assert.notEqual(at, -1);
  const changed = Buffer.from(image);
  changed.write(to, at);
  return changed;
}

/** What is in front of the data of a state disk: the records with the LUKS headers. */
async function digestOf(disk: string, partition: number): Promise<string> {
  await using file = await open(disk);
  const start = Buffer.alloc(LAYOUT.dataOffset);
  await file.read(start, 0, start.length, partition);
  return createHash('sha256').update(start).digest('hex');
}

/** Emulated machines can miss a time limit that real ones do not. The same command continues then. */
async function continued(command: () => Promise<string>): Promise<void> {
  for (let round = 1; ; round++) {
    try {
      await note(await command());
      return;
    } catch (error) {
      await note(`round ${round}: ${error instanceof ExecError ? error.outputTail : String(error)}`);
      if (round === MOST_ROUNDS) throw error;
    }
  }
}

await runOnNetwork(import.meta.filename, { prepare, run: runApproval });
