import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { encryptAge, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { SupportError } from './errors.ts';
import {
  decodeSupportFile,
  encodeSupportFile,
  type SupportFile,
  type SupportManifest,
} from './support-file.ts';

function ownerKey(): Secret<string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  return new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
}

const HEAD = { clusterId: '00', clusterName: 'blue', takenMs: 1, cliVersion: '0.1.0' };
const key = recoveryKeyOfOwner(ownerKey());
const other = recoveryKeyOfOwner(ownerKey());

async function* filesOf(files: readonly SupportFile[]): AsyncGenerator<SupportFile> {
  yield* files;
}

function encode(files: readonly SupportFile[], missing: SupportManifest['missing'] = []): Promise<Buffer> {
  return buffer(encodeSupportFile(HEAD, filesOf(files), { missing, recipients: [key.recipient] }));
}

async function decode(bytes: Uint8Array, keys = [key]) {
  const decoding = decodeSupportFile(Readable.from([bytes]), keys);
  const files: SupportFile[] = [];
  for (;;) {
    const { done, value } = await decoding.next();
    if (done === true) return { files, manifest: value };
    files.push(value);
  }
}

const file = (path: string, text: string): SupportFile => ({ path, content: new TextEncoder().encode(text) });

test('decodeSupportFile() returns the files and what is missing', async () => {
  const files = [file('facts.json', '{}'), file('nodes/n1/agent.log', 'x'.repeat(200_000))];
  const missing = [{ path: 'nodes/n2/agent.log', error: 'unreachable' }];
  const { files: read, manifest } = await decode(await encode(files, missing));
  expect(read.map(({ path, content }) => [path, content.length])).toEqual([
    ['facts.json', 2],
    ['nodes/n1/agent.log', 200_000],
  ]);
  expect(manifest).toMatchObject({ ...HEAD, missing });
});

test('decodeSupportFile() says that a file is missing, and not that its content is wrong', async () => {
  const chunks = new DiskStreams().readChunks('/nowhere/a.support', { signal: AbortSignal.timeout(10_000) });
  const reading = Array.fromAsync(decodeSupportFile(chunks, [key]));
  await expect(reading).rejects.toMatchObject({ code: 'file-missing' });
});

test('decodeSupportFile() refuses another key, and a file with a changed byte or a cut at any position', async () => {
  const bytes = await encode([file('facts.json', '{"a":1}')]);
  await expect(decode(bytes, [other])).rejects.toMatchObject({ code: 'support-key-refused' });
  for (let at = 0; at < bytes.length; at += 7) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    await expect(decode(changed)).rejects.toThrow(SupportError);
    await expect(decode(bytes.subarray(0, at))).rejects.toMatchObject({ code: 'support-file-malformed' });
  }
});

async function archive(
  members: readonly { readonly name: string; readonly type?: 'symlink'; readonly text: string }[],
) {
  const tar = pack();
  for (const { name, type, text } of members)
    if (type === undefined) tar.entry({ name }, text);
    else tar.entry({ name, type, linkname: '/etc/passwd' });
  tar.finalize();
  return buffer(encryptAge(Readable.from([gzipSync(await buffer(tar))]), [key.recipient]));
}

const manifest = (change: Record<string, unknown> = {}): string =>
  JSON.stringify({ version: 1, ...HEAD, files: [], missing: [], ...change });

test.each([
  {
    name: 'a member outside the directory',
    members: [{ name: '../x', text: 'x' }],
    code: 'support-file-malformed',
  },
  { name: 'an absolute path', members: [{ name: '/etc/x', text: 'x' }], code: 'support-file-malformed' },
  {
    name: 'a link',
    members: [{ name: 'x', type: 'symlink' as const, text: '' }],
    code: 'support-file-malformed',
  },
  {
    name: 'a repeated member',
    members: [
      { name: 'x', text: '1' },
      { name: 'x', text: '2' },
    ],
    code: 'support-file-malformed',
  },
  { name: 'a missing manifest', members: [{ name: 'x', text: '1' }], code: 'support-file-malformed' },
  {
    name: 'a file that the manifest lacks',
    members: [
      { name: 'x', text: '1' },
      { name: 'manifest.json', text: manifest() },
    ],
    code: 'support-file-malformed',
  },
  {
    name: 'a manifest that is not JSON',
    members: [{ name: 'manifest.json', text: '{' }],
    code: 'support-file-malformed',
  },
  {
    name: 'an unknown member of the manifest',
    members: [{ name: 'manifest.json', text: manifest({ more: 1 }) }],
    code: 'support-file-malformed',
  },
  {
    name: 'a newer version',
    members: [{ name: 'manifest.json', text: manifest({ version: 2, cliVersion: '9.0.0' }) }],
    code: 'support-file-version',
  },
])('decodeSupportFile() refuses $name', async ({ members, code }) => {
  await expect(decode(await archive(members))).rejects.toMatchObject({ code });
});
