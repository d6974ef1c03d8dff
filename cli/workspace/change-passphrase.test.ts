import { describe, expect, test } from '@jest/globals';
import type { FilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { everyFault, MemoryFiles } from '../../internal/testing/index.ts';
import { plainSecrets } from './fake-passphrases.ts';
import {
  changePassphrase,
  createIdentity,
  createWorkspace,
  layoutOf,
  readIdentity,
  readMasterSecret,
  readOwnerKey,
  saveGrant,
  secretsOf,
  StateFile,
  type SecretAccess,
} from './index.ts';
import { Passphrase } from './passphrase.ts';

const layout = layoutOf('/workspace');
const CONFIG = 'version: 1\nname: prod\nattestation: {variants: [machine-key], firstContact: fingerprint}\n';
const secrets = secretsOf(layout);
const OLD = Passphrase.parse(new Secret('the old passphrase'), { logN: 15 });
const NEW = Passphrase.parse(new Secret('the new passphrase'), { logN: 15 });

/** Answers with these passphrases; a call without an answer fails the test. */
function accessOf(
  files: FilePort,
  answers: { readonly current?: Passphrase; readonly next?: Passphrase },
): SecretAccess {
  const answer = async (passphrase: Passphrase | undefined): Promise<Passphrase> => {
    if (passphrase === undefined) throw new TypeError('not expected to ask');
    return passphrase;
  };
  return {
    ports: { files },
    passphrases: { current: () => answer(answers.current), create: () => answer(answers.next) },
  };
}

async function textOf(files: FilePort, path: string): Promise<string> {
  return Buffer.from((await files.read(path, 1e6)) ?? []).toString();
}

async function create(access: SecretAccess, encrypt = false): Promise<void> {
  const state = await StateFile.read(access.ports.files, layout, { programVersion: '0.1.0' });
  await createWorkspace(access, layout, { configText: CONFIG, state, encrypt });
  await createIdentity(access, layout.identity, { name: 'ann', encrypt });
}

/** What the three files contain. */
async function contents(access: SecretAccess): Promise<readonly string[]> {
  return [
    (await readOwnerKey(access, layout)).keyPem.reveal(),
    Buffer.from((await readMasterSecret(access, layout)).key.reveal()).toString('hex'),
    (await readIdentity(access, layout.identity)).keyPem.reveal(),
  ];
}

const set = (access: SecretAccess, remove = false) => changePassphrase(access, { secrets, remove });

describe('changePassphrase()', () => {
  test('encrypts plain files, which then open with this passphrase only', async () => {
    const files = new MemoryFiles();
    await create(plainSecrets(files));
    const before = await contents(plainSecrets(files));
    expect(await set(accessOf(files, { next: NEW }))).toEqual(secrets.map(({ path }) => path));
    for (const { path } of secrets) {
      expect((await files.stat(path))?.mode).toBe(0o600);
      expect(await textOf(files, path)).not.toMatch(/PRIVATE KEY|"key"/);
    }
    expect(await contents(accessOf(files, { current: NEW }))).toEqual(before);
    await expect(contents(plainSecrets(files))).rejects.toMatchObject({
      code: 'workspace-passphrase-needed',
    });
    await expect(contents(accessOf(files, { current: OLD }))).rejects.toMatchObject({
      code: 'workspace-passphrase-wrong',
    });
  });

  test('replaces a passphrase, and removes it', async () => {
    const files = new MemoryFiles();
    await create(accessOf(files, { next: OLD, current: OLD }), true);
    const before = await contents(accessOf(files, { current: OLD }));
    await set(accessOf(files, { current: OLD, next: NEW }));
    expect(await contents(accessOf(files, { current: NEW }))).toEqual(before);
    await set(accessOf(files, { current: NEW }), true);
    expect(await contents(plainSecrets(files))).toEqual(before);
    expect(await set(plainSecrets(files), true)).toEqual([]);
  });

  test('with a wrong passphrase changes nothing, and asks for no new one', async () => {
    const files = new MemoryFiles();
    await create(accessOf(files, { next: OLD, current: OLD }), true);
    const before = await Promise.all(secrets.map(({ path }) => textOf(files, path)));
    for (const remove of [false, true])
      await expect(set(accessOf(files, { current: NEW }), remove)).rejects.toMatchObject({
        code: 'workspace-passphrase-wrong',
      });
    expect(await Promise.all(secrets.map(({ path }) => textOf(files, path)))).toEqual(before);
  });

  test.each([
    { name: 'setting', from: undefined, next: NEW, remove: false },
    { name: 'replacing', from: OLD, next: NEW, remove: false },
    { name: 'removing', from: OLD, next: undefined, remove: true },
  ])(
    'if $name a passphrase is interrupted at any write, each file stays whole, and the same command completes the change',
    async ({ from, next, remove }) => {
      let before: readonly string[] = [];
      const answers = { ...(from && { current: from }), ...(next && { next }) };
      const names: string[] = [];
      for await (const { disk, name } of everyFault({
        faults: ['crash-before', 'crash-after', 'no-space'],
        prepare: async (disk) => {
          const access = accessOf(disk, from === undefined ? {} : { next: from, current: from });
          await create(access, from !== undefined);
          before = await contents(access);
        },
        run: (files) => set(accessOf(files, answers), remove),
      })) {
        // The crash may have left a file encrypted that was plain before. Its current passphrase is then the new one.
        const again = { ...answers, ...(from === undefined && next && { current: next }) };
        const isComplete = name.startsWith('crash-after writeAtomic') && name.endsWith(layout.identity);
        const completed = set(accessOf(disk, again), remove);
        // All files have the new passphrase already, so that the old one is wrong.
        if (isComplete && from && next)
          await expect(completed).rejects.toMatchObject({ code: 'workspace-passphrase-wrong' });
        else await completed;
        const access = next === undefined ? plainSecrets(disk) : accessOf(disk, { current: next });
        expect({ name, contents: await contents(access) }).toEqual({ name, contents: before });
        names.push(name);
      }
      expect(names).toHaveLength(18);
    },
  );

  test('removes what a killed writer left under a temporary name', async () => {
    const files = new MemoryFiles();
    await create(plainSecrets(files));
    const swept: string[] = [];
    files.removeTemporary = async (path) => void swept.push(path);
    await set(accessOf(files, { next: NEW }));
    expect(swept).toEqual(secrets.map(({ path }) => path));
  });

  test('refuses a workspace without keys, and keys that others can read', async () => {
    const files = new MemoryFiles();
    await expect(set(plainSecrets(files))).rejects.toMatchObject({ code: 'workspace-missing' });
    await create(plainSecrets(files));
    await files.writeAtomic(layout.ownerKey, await textOf(files, layout.ownerKey), { mode: 0o644 });
    await expect(set(plainSecrets(files))).rejects.toMatchObject({ code: 'workspace-key-mode' });
  });
});

describe('createWorkspace() with a passphrase', () => {
  test('never writes a plain key, and completes an interrupted run with the same passphrase', async () => {
    for await (const { disk, name } of everyFault({
      faults: ['crash-before', 'crash-after'],
      prepare: async (disk) => disk.makeDirectory('/workspace'),
      run: (files) => create(accessOf(files, { next: NEW, current: NEW }), true),
    })) {
      for (const { path } of secrets)
        expect({ name, text: await textOf(disk, path) }).not.toMatchObject({
          text: expect.stringMatching(/PRIVATE KEY|"key"/),
        });
      await create(accessOf(disk, { next: NEW, current: NEW }), true);
      expect(await contents(accessOf(disk, { current: NEW }))).toHaveLength(3);
    }
  });

  test('uses the passphrase of the first key for the missing one, even without --passphrase', async () => {
    const files = new MemoryFiles();
    await create(accessOf(files, { next: NEW, current: NEW }), true);
    await files.remove(layout.masterSecret);
    await expect(create(accessOf(files, { current: OLD }))).rejects.toMatchObject({
      code: 'workspace-passphrase-wrong',
    });
    expect(await files.stat(layout.masterSecret)).toBeUndefined();
    await create(accessOf(files, { current: NEW }));
    expect(await textOf(files, layout.masterSecret)).not.toContain('"key"');
  });

  test('refuses keys that exist without a passphrase', async () => {
    const files = new MemoryFiles();
    await create(plainSecrets(files));
    const failure = { code: 'workspace-not-encrypted' };
    await expect(create(accessOf(files, { next: NEW }), true)).rejects.toMatchObject(failure);
    const identity = createIdentity(accessOf(files, { next: NEW }), layout.identity, {
      name: 'ann',
      encrypt: true,
    });
    await expect(identity).rejects.toMatchObject(failure);
  });
});

test('saveGrant() keeps an encrypted identity encrypted', async () => {
  const files = new MemoryFiles();
  const access = accessOf(files, { next: NEW, current: NEW });
  await create(access, true);
  const identity = await readIdentity(access, layout.identity);
  const grant = {
    ...{ version: 1 as const, name: 'ann', role: 'viewer', clusterId: 'c', clusterCaPem: 'pem' },
    ...{ certificatePem: 'pem', curatorEndpoints: [] },
  };
  await saveGrant(access, layout.identity, { ...identity, grant });
  expect(await textOf(files, layout.identity)).not.toContain('PRIVATE KEY');
  expect(await readIdentity(access, layout.identity)).toMatchObject({ name: 'ann', grant });
});
