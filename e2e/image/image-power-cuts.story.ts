import assert from 'node:assert/strict';
import { mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { decryptAge, parseRecoveryKey } from '../../internal/backup/index.ts';
import { LAYOUT } from '../../internal/luks/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  diskStateOf,
  SLOT_BYTES,
  type DiskState,
  type RecordContent,
} from '../../internal/statedisk/index.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';
import {
  buildImage,
  buildPrograms,
  cliOf,
  clock,
  copy,
  DISK_REGISTERS,
  failureOf,
  fingerprintOf,
  identityOf,
  makeTpm,
  NOT_A_MEMBER,
  positionOf,
  RECOVERY,
  run,
  STATE_DEVICE,
  statePartition,
  writeProvisioning,
} from './image-steps.ts';
import { PowerCutDisk, type DiskRequest, type Moment } from './power-cut-disk.ts';

/**
 * A machine with an image loses its power at chosen writes while it formats, opens and recovers its state disk. The disk stops at the write, and loses
 * what it has not been told to flush. The next boot formats the disk again if it has never been ready; otherwise the disk opens, with everything that
 * was flushed.
 */
const ADDRESS = '198.18.200.15';
const STATE_MIB = 128;
const MAGIC = Buffer.from('clstdisk');
const STAGE_AT = 12;
const STAGES: Readonly<Record<number, string>> = { 1: 'formatting', 2: 'ready' };
/** Within the encrypted keys of the header in a record, which are random bytes. */
const IN_RECORD = 256 * 1024;
/** The slot of the recovery key in a LUKS header. */
const RECOVERY_SLOT = '1';
/** The firmware has started. */
const STARTS = /BdsDxe/;
const LOCKED = /changed: pcr9, pcr12/;

/** A cut of the power. */
interface Cut {
  readonly name: string;
  readonly moment: Moment;
  /** What happens to the writes since the last flush. */
  readonly cache: 'lost' | 'written';
  /** What the records on the disk say afterwards. */
  readonly leaves: DiskState['kind'];
}

await test('a power cut at chosen writes leaves a state disk that is formatted again or opens', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-'));
  const at = (name: string): string => join(directory, name);
  const log = join(tmpdir(), 'cluster-image-power-cuts.log');
  const disk = at('disk.raw');
  const cli = cliOf(at('workspace'));
  let boots = 0;
  const startMs = clock.monotonicMs();
  try {
    await makeTpm(at('tpm'));
    await unpackPackages(['ovmf'], at('ovmf'));
    await buildPrograms();
    await cli('config', 'generate', '--name', 'image', '--attestation', 'tpm');
    await writeFile(at('recovery.txt'), `${RECOVERY.key}\n`, { mode: 0o600 });
    // prettier-ignore
    await cli(
      'provisioning', 'generate', '--out', at('provisioning.json'), '--address', ADDRESS, '--state-disk', STATE_DEVICE,
      '--state-disk-pcrs', DISK_REGISTERS.join(','), '--recovery-recipient', RECOVERY.recipient,
    );
    const image = { out: at('image'), provisioning: at('provisioning.json') };
    await buildImage(cli, image, '--state-size', String(STATE_MIB));
    await copy(at('image/disk.raw'), disk);
    const partition = await statePartition(disk);
    const when = momentsOf(partition);

    /** Starts the machine, lets it run until the disk stops, and cuts its power. @returns how often it has formatted the disk */
    const runUntilCut = async (
      { moment, cache }: Pick<Cut, 'cache'> & { readonly moment?: Moment },
      use: (machine: ImageMachine, stopped: Promise<void>, stop: () => void) => Promise<void>,
    ): Promise<number> => {
      let formattings = 0;
      boots += 1;
      const counting: Moment = {
        does: moment?.does ?? 'nothing',
        at: (request) => {
          if (when.stage(request, 0) === 'formatting') formattings += 1;
          return moment?.at(request) === true;
        },
      };
      await using served = await PowerCutDisk.serve(disk, at(`disk-${boots}.sock`), counting);
      {
        await using machine = await bootImage(at(`boot-${boots}`), {
          ...{ disk: served.url, firmware: at('ovmf/usr/share/OVMF'), tpm: at('tpm'), log },
          ...{ keepsWrites: true, until: STARTS },
        });
        await use(machine, served.reached(), () => served.stop());
      }
      await served.cut(cache);
      return formattings;
    };
    /** Waits until the machine is at a moment of its start. */
    const starting = async (machine: ImageMachine, stopped: Promise<void>): Promise<void> => {
      const started = machine.until(NOT_A_MEMBER).then(() => assert.fail('the machine has started'));
      await Promise.race([stopped, started]);
    };
    const boot = async (): Promise<string> => {
      let fingerprint = '';
      const formattings = await runUntilCut({ cache: 'lost' }, async (machine, _, stop) => {
        await machine.until(NOT_A_MEMBER);
        stop();
        fingerprint = fingerprintOf(machine);
      });
      assert.equal(formattings, 0, 'the disk was formatted');
      return fingerprint;
    };
    const spent = (): string => `${boots} boots, ${Math.round((clock.monotonicMs() - startMs) / 1000)} s`;

    const formatting: readonly Cut[] = [
      {
        name: 'before the disk has the record "formatting"',
        moment: { at: (request) => when.stage(request, 0) === 'formatting', does: 'nothing' },
        ...{ cache: 'lost', leaves: 'blank' },
      },
      {
        name: 'when the record "formatting" is written, before the counter of the TPM is made',
        moment: { at: flushAfter((request) => when.stage(request, 0) === 'formatting'), does: 'all' },
        ...{ cache: 'lost', leaves: 'formatting' },
      },
      {
        name: 'while the sectors and their tags are written',
        moment: { at: when.writes((STATE_MIB / 2) * 2 ** 20), does: 'nothing' },
        ...{ cache: 'written', leaves: 'formatting' },
      },
      {
        name: 'when half of the record "ready" is written',
        moment: { at: when.writes(SLOT_BYTES + IN_RECORD), does: 'half' },
        ...{ cache: 'written', leaves: 'formatting' },
      },
      {
        name: 'before the first sector of the record "ready" is written',
        moment: { at: (request) => when.stage(request, 1) === 'ready', does: 'nothing' },
        ...{ cache: 'lost', leaves: 'formatting' },
      },
      {
        name: 'when the record "ready" is written, before the counter of the TPM is incremented',
        moment: { at: flushAfter((request) => when.stage(request, 1) === 'ready'), does: 'all' },
        ...{ cache: 'lost', leaves: 'ready' },
      },
    ];
    for (const { name, leaves, ...cut } of formatting)
      await story.test(`formatting begins from the start: cut ${name}`, async (step) => {
        assert.equal(await runUntilCut(cut, starting), 1, 'how often the disk was formatted');
        assert.equal((await recordsOf(disk, partition)).kind, leaves);
        step.diagnostic(spent());
      });

    const { content: first, sequence } = await recordOf(disk, partition);

    const opening: readonly Omit<Cut, 'leaves'>[] = [
      {
        name: 'when the counter of the TPM is incremented, before the record "formatting" is deleted',
        moment: { at: (request) => when.stage(request, 0) === 'zeros', does: 'nothing' },
        cache: 'lost',
      },
      {
        name: 'at the first write to the file system',
        moment: { at: when.writesAfter(LAYOUT.dataOffset), does: 'nothing' },
        cache: 'lost',
      },
    ];
    for (const { name, ...cut } of opening)
      await story.test(`a disk that is ready is never formatted: cut ${name}`, async (step) => {
        assert.equal(await runUntilCut(cut, starting), 0, 'how often the disk was formatted');
        const record = await recordOf(disk, partition);
        assert.deepEqual(
          { uuid: record.content.uuid, sequence: record.sequence },
          { uuid: first.uuid, sequence },
        );
        step.diagnostic(spent());
      });

    let fingerprint = '';

    await story.test(
      'the key whose fingerprint the console has shown is there after a power cut at that moment',
      async (step) => {
        fingerprint = await boot();
        assert.equal(await boot(), fingerprint);
        step.diagnostic(spent());
      },
    );

    await writeFile(at('changed.json'), `${await readFile(at('provisioning.json'), 'utf8')} `);
    await writeProvisioning(disk, at('changed.json'));
    const recovering: readonly Omit<Cut, 'leaves'>[] = [
      {
        name: 'when half of the new record is written',
        moment: { at: when.writes(IN_RECORD), does: 'half' },
        cache: 'written',
      },
      {
        name: 'when the new record is written, before the counter of the TPM is incremented',
        moment: { at: flushAfter((request) => when.stage(request, 0) === 'ready'), does: 'all' },
        cache: 'lost',
      },
    ];
    for (const [round, { name, ...cut }] of recovering.entries())
      await story.test(`a recovery leaves the old record or the new one: cut ${name}`, async (step) => {
        let failed: Promise<string> = Promise.resolve('');
        const formattings = await runUntilCut(cut, async (machine, stopped) => {
          await machine.until(LOCKED);
          const recover = (...flags: readonly string[]): Promise<string> =>
            cli('recover', 'disk', 'n1', '--address', machine.endpoint, ...flags);
          const key = ['--machine', await identityOf(recover), '--recovery-key', at('recovery.txt'), '--yes'];
          failed = failureOf(recover(...key));
          await Promise.race([
            stopped,
            failed.then((text) => assert.fail(`the recovery ended before the cut: ${text}`)),
          ]);
        });
        await failed; // the machine is off
        assert.equal(formattings, 0, 'the disk was formatted');
        const record = await recordOf(disk, partition);
        assert.equal(record.content.uuid, first.uuid);
        assert.equal(record.sequence, sequence + BigInt(round), 'which record the disk has');
        step.diagnostic(spent());
      });

    await story.test(
      'after the recovery the disk opens by itself: cut when the counter is incremented, before the old record is deleted',
      async (step) => {
        const moment: Moment = { at: (request) => when.stage(request, 1) === 'zeros', does: 'nothing' };
        assert.equal(await runUntilCut({ moment, cache: 'lost' }, starting), 0);
        assert.equal(await boot(), fingerprint);
        step.diagnostic(spent());
      },
    );

    await story.test('neither the disk nor the image has a key in the clear', async () => {
      const { content } = await recordOf(disk, partition);
      const recoveryKey = await recoveryKeyOf(content);
      const volumeKey = await volumeKeyOf(directory, content, recoveryKey);
      const secrets = [recoveryKey, ...[0, 32, 64].map((from) => volumeKey.subarray(from, from + 32))];
      assert.deepEqual(
        secrets.map(({ length }) => length),
        [32, 32, 32, 32],
      );
      for (const file of [disk, at('image/disk.raw'), at('image/boot.efi')]) {
        for (const [number, secret] of secrets.entries())
          for (const encoding of ['latin1', 'hex', 'base64'] as const)
            assert.equal(
              await positionOf(file, Buffer.from(secret.toString(encoding), 'latin1')),
              undefined,
              `${number} ${encoding}`,
            );
        for (const text of [RECOVERY.key, 'PRIVATE KEY', fingerprint, Buffer.from(fingerprint, 'hex')])
          assert.equal(await positionOf(file, text), undefined);
      }
      // Proves that the search works: what the record has unencrypted is found.
      const sealed = Buffer.from(content.nodeShare).toString('base64');
      assert.notEqual(await positionOf(disk, sealed), undefined);
      assert.notEqual(await positionOf(disk, RECOVERY.recipient), undefined);
    });
    story.diagnostic(spent());
  } finally {
    await rm(directory, { recursive: true });
  }
});

/** Tells requests by where they write. Positions count from the beginning of the state partition. */
function momentsOf(partition: number) {
  const covers = (request: DiskRequest, position: number): request is DiskRequest & { kind: 'write' } =>
    request.kind === 'write' &&
    request.offset <= partition + position &&
    partition + position < request.offset + request.bytes.length;
  return {
    /** A write of something else than zeros. */
    writes: (position: number) => (request: DiskRequest) =>
      covers(request, position) &&
      Buffer.from(request.bytes)
        .subarray(partition + position - request.offset)
        .subarray(0, 64)
        .some((byte) => byte !== 0),
    writesAfter: (position: number) => (request: DiskRequest) =>
      request.kind === 'write' && request.offset >= partition + position,
    /** What a request writes as the stage of the record in a slot. */
    stage: (request: DiskRequest, slot: number): string | undefined => {
      const position = slot * SLOT_BYTES;
      if (!covers(request, position)) return undefined;
      const record = Buffer.from(request.bytes).subarray(partition + position - request.offset);
      const magic = record.subarray(0, MAGIC.length);
      if (magic.equals(MAGIC)) return STAGES[record.readUInt32LE(STAGE_AT)];
      return magic.every((byte) => byte === 0) ? 'zeros' : undefined;
    },
  };
}

/** The first flush after a request. */
function flushAfter(isIt: (request: DiskRequest) => boolean): (request: DiskRequest) => boolean {
  let isSeen = false;
  return (request) => {
    isSeen ||= isIt(request);
    return isSeen && request.kind === 'flush';
  };
}

async function recordsOf(disk: string, partition: number): Promise<DiskState> {
  await using file = await open(disk);
  const start = Buffer.alloc(2 * SLOT_BYTES);
  await file.read(start, 0, start.length, partition);
  return diskStateOf(start);
}

async function recordOf(disk: string, partition: number) {
  const state = await recordsOf(disk, partition);
  assert.ok(state.kind === 'ready', state.kind);
  return state.record;
}

/** Decrypts the recovery key of the disk with the key of an owner. */
async function recoveryKeyOf({ recovery }: RecordContent): Promise<Buffer> {
  assert.ok(recovery.kind === 'key');
  const { sealed } = recovery;
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(sealed);
  }
  const key = parseRecoveryKey(new Secret(RECOVERY.key));
  return Buffer.concat(await Array.fromAsync(decryptAge(bytes(), [key])));
}

/** The key of the sectors and of their tags, which cryptsetup(8) checks with the header of the disk. */
async function volumeKeyOf(
  directory: string,
  { header }: RecordContent,
  recoveryKey: Uint8Array,
): Promise<Buffer> {
  const at = (name: string): string => join(directory, name);
  await writeFile(at('header'), header);
  await truncate(at('header'), 2 * LAYOUT.dataOffset); // cryptsetup looks for the data behind it
  await writeFile(at('recovery.key'), recoveryKey, { mode: 0o600 });
  // prettier-ignore
  await run(
    'cryptsetup', 'luksDump', '--batch-mode', '--dump-volume-key', '--volume-key-file', at('volume.key'),
    '--key-slot', RECOVERY_SLOT, '--key-file', at('recovery.key'), at('header'),
  );
  return readFile(at('volume.key'));
}
