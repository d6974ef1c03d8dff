import { beforeAll, expect, test } from '@jest/globals';
import { dirname, join } from 'node:path';
import type { FilePort } from '../../internal/file/index.ts';
import {
  CLUSTER_CA,
  createClusterCa,
  createEncryptionKey,
  createPairs,
  createServersCa,
  KEY_PHASES,
  ROTATION_FILE,
  SERVERS_CA,
  type KeyPhase,
  type KeySet,
  type RotatingPair,
} from '../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import { everyFault, MemoryFiles } from '../../internal/testing/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import { installSharedKeys } from './install-shared-keys.ts';
import { KeyStore } from './key-store.ts';

const STATE = '/var/lib/cluster';
const KEYS = {
  rotation: `${STATE}/keys/${ROTATION_FILE}`,
  newKeys: `${STATE}/keys/new.json`,
  stage: `${STATE}/keys/stage.json`,
  lastKey: `${STATE}/ca/ca.key`,
};
const FIRST_CA = `${PATHS.pki}/ca.crt`;

type Pairs = KeySet['next'] & Readonly<Record<typeof SERVERS_CA, RotatingPair>>;

let keys: Omit<KeySet, 'phase'> & { readonly previous: Pairs };
beforeAll(async () => {
  const nowMs = Date.UTC(2026, 0, 1);
  const serversKey = generateKeyPem();
  const servers = {
    public: await createCaCertPem({ commonName: 'kubernetes', keyPem: serversKey, nowMs, pathLength: 1 }),
    private: serversKey,
  };
  keys = {
    generation: 2,
    previous: {
      ...(await createPairs(1, nowMs)),
      [SERVERS_CA]: servers,
      [CLUSTER_CA]: await createClusterCa(1, nowMs),
    },
    next: {
      ...(await createPairs(2, nowMs)),
      [SERVERS_CA]: await createServersCa(2, nowMs, servers),
      [CLUSTER_CA]: await createClusterCa(2, nowMs),
    },
    encryption: {
      resources: ['secrets'],
      previous: createEncryptionKey(1),
      next: createEncryptionKey(2),
      older: [],
    },
  };
});

/** One step of a rotation on a control plane: its keys in a later phase, and then every file that programs read. */
async function reach(files: FilePort, phase: KeyPhase): Promise<void> {
  const store = new KeyStore(files, KEYS);
  await store.saveSet({ ...keys, phase });
  await installSharedKeys(files, store, STATE);
}

/** A disk on which every phase up to this one was reached without a crash. */
async function prepare(disk: MemoryFiles, last: KeyPhase | undefined): Promise<MemoryFiles> {
  for (const directory of [`${STATE}/keys`, PATHS.pki]) await disk.makeDirectory(directory);
  await disk.writeAtomic(FIRST_CA, keys.previous[SERVERS_CA].public);
  if (last === undefined) return disk;
  for (const phase of KEY_PHASES.slice(0, KEY_PHASES.indexOf(last) + 1)) await reach(disk, phase);
  return disk;
}

async function textsOf(files: FilePort, directory = '/'): Promise<Readonly<Record<string, string>>> {
  const texts: Record<string, string> = {};
  for (const name of await files.list(directory)) {
    const path = join(directory, name);
    if ((await files.stat(path))?.kind === 'directory') Object.assign(texts, await textsOf(files, path));
    else texts[path] = Buffer.from((await files.read(path, 1_000_000)) ?? []).toString('utf8');
  }
  return texts;
}

test.each(KEY_PHASES)(
  'installSharedKeys() completes phase %s after a crash at any write, with the files of an undisturbed rotation',
  async (phase) => {
    const before = KEY_PHASES[KEY_PHASES.indexOf(phase) - 1];
    const [start, wanted] = await Promise.all(
      [before, phase].map(async (last) => textsOf(await prepare(new MemoryFiles(), last))),
    );
    const points: string[] = [];
    const faults = everyFault({
      faults: ['crash-before'], // after a write is before the next one
      prepare: async (disk) => {
        for (const [path, text] of Object.entries(start ?? {})) {
          await disk.makeDirectory(dirname(path));
          await disk.writeAtomic(path, text);
        }
      },
      run: (files) => reach(files, phase),
    });
    for await (const { name, disk } of faults) {
      points.push(name);
      // Simulates the next start of the agent before etcd and Kubernetes start, in the phase that was saved on disk.
      await installSharedKeys(disk, new KeyStore(disk, KEYS), STATE);
      await reach(disk, phase);
      expect({ name, texts: await textsOf(disk) }).toEqual({ name, texts: wanted });
    }
    expect(points.length).toBeGreaterThan(0);
  },
);

test('installSharedKeys() replaces the CA of the cluster, the CA of servers and every other shared key', async () => {
  const [first, last] = await Promise.all(
    (['distribute', 'done'] as const).map(async (phase) => textsOf(await prepare(new MemoryFiles(), phase))),
  );
  const secrets = Object.values(keys.previous).map((pair) => pair?.private.reveal() ?? '');
  const holds = (texts: Readonly<Record<string, string>> | undefined, secret: string): boolean =>
    Object.entries(texts ?? {}).some(([path, text]) => path !== KEYS.rotation && text === secret);
  // The CA of servers is on the disk of a new cluster before the first rotation.
  expect(secrets.filter((secret) => !holds(first, secret))).toEqual([
    keys.previous[SERVERS_CA].private.reveal(),
  ]);
  expect(secrets.filter((secret) => holds(last, secret))).toEqual([]);
});
