import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { generateWorkspace, saveKnownCurators } from '../cluster/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { createBackup, deleteBackups } from './fake-backup.ts';
import { runRestore, type RestoreOptions } from './restore-backup.ts';

/** The position of the number of the format, behind the magic. */
const VERSION_AT = 9;
/** An age identity that opens no backup of these tests. */
const OTHER_IDENTITY = 'AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R';

type Backup = Awaited<ReturnType<typeof createBackup>>;

let backup: Backup;
let machine: Server;
let connections = 0;
let calls = 0;

beforeAll(async () => {
  backup = await createBackup();
  machine = createServer((socket) => {
    connections++;
    socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(machine, 'listening');
});
afterAll(async () => {
  machine.close();
  await deleteBackups();
});

/** Restores a file with these bytes. Resolves to the code of the refusal, after a check that nothing was touched. */
async function refusal(
  bytes: Uint8Array,
  change: Partial<RestoreOptions> & { readonly workspace?: string; readonly from?: Backup } = {},
): Promise<string> {
  const { workspace = '/new', from = backup, ...flags } = change;
  const { files } = from;
  const given = `${from.file}.${++calls}`; // a test that ran out of time must not write into the file of the next one
  await writeFile(given, bytes);
  const { port } = machine.address() as AddressInfo;
  const options: RestoreOptions = {
    ...{ ownerKey: '/owner/owner-key.pem', recoveryKey: undefined, fingerprint: undefined },
    ...{ node: `127.0.0.1:${port}`, controlPlanes: [], keepWorkers: [], workDir: undefined },
    removedMachines: [],
    ...{ acceptOlderEpoch: false, dryRun: false, yes: true },
    ...flags,
  };
  const before = await contentOf(from, workspace);
  const error: unknown = await runRestore(contextOf(files, workspace), given, options).catch(
    (reason: unknown) => reason,
  );
  await rm(given);
  expect(await contentOf(from, workspace)).toEqual(before);
  expect(connections).toBe(0);
  return String((error as { readonly code?: unknown } | undefined)?.code);
}

async function contentOf({ files }: Backup, directory: string): Promise<Readonly<Record<string, string>>> {
  const names = await files.list(directory);
  const entries = names.map(async (name) => {
    const bytes = await files.read(`${directory}/${name}`, 1e6).catch(() => undefined);
    return [name, Buffer.from(bytes ?? []).toString('base64')] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

describe('cluster restore calls no machine, and changes no workspace, with', () => {
  // In parts, so that each is far from the time limit on a busy machine.
  test.each([0, 1, 2, 3])('a file in which any one byte was changed, part %d of 0–3', async (part) => {
    const codes = new Set<string>();
    for (let at = part; at < backup.bytes.length; at += 4) {
      const bytes = Uint8Array.from(backup.bytes);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      const code = await refusal(bytes);
      expect([at, code]).toEqual([at, expect.stringMatching(/^backup-/)]);
      codes.add(code);
    }
    expect([...codes]).toEqual(expect.arrayContaining(['backup-not-a-backup', 'backup-signature-invalid']));
  });

  test('a file that ends anywhere before its end, or goes on after it', async () => {
    const { bytes } = backup;
    for (let length = 0; length < bytes.length; length += 13)
      expect([length, await refusal(bytes.subarray(0, length))]).toEqual([
        length,
        length < VERSION_AT - 1 ? 'backup-not-a-backup' : 'backup-truncated',
      ]);
    expect(await refusal(bytes.subarray(0, -1))).toBe('backup-truncated');
    expect(await refusal(Buffer.concat([bytes, Buffer.of(0)]))).toBe('backup-malformed');
  });

  test('a file of a newer version', async () => {
    const bytes = Uint8Array.from(backup.bytes);
    bytes[VERSION_AT] = (bytes[VERSION_AT] ?? 0) + 1;
    expect(await refusal(bytes)).toBe('backup-version-newer');
  });

  test('the file of another owner, or of another cluster of the same owner', async () => {
    const other = contextOf(backup.files, '/other');
    await generateWorkspace(other, { name: 'other' });
    const ownerKey = '/other/owner-key.pem';
    expect(await refusal(backup.bytes, { ownerKey })).toBe('backup-certificate-invalid');
    const from = await createBackup({ clusterId: 'another-cluster' });
    expect(await refusal(from.bytes, { from, ownerKey: undefined, workspace: '/owner' })).toBe(
      'backup-other-cluster',
    );
  });

  test('a file of an older epoch than the workspace knows', async () => {
    const { files } = backup;
    await saveKnownCurators(files, layoutOf('/owner').curators, { epoch: 2n, directory: [] });
    const inWorkspace = { ownerKey: undefined, workspace: '/owner' };
    expect(await refusal(backup.bytes, inWorkspace)).toBe('backup-epoch-old');
  });

  test('a recovery key that does not open the file', async () => {
    const { files } = backup;
    await files.makeDirectory('/keys');
    await files.writeAtomic('/keys/other.txt', OTHER_IDENTITY);
    expect(await refusal(backup.bytes, { recoveryKey: '/keys/other.txt' })).toBe('backup-no-recovery-key');
  });
});
