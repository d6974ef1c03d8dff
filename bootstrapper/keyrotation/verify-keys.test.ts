import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  createPairs,
  publicKeysOf,
  signedKeysOf,
  type PublicKeys,
  type SignedKeys,
} from '../../internal/keyset/index.ts';
import { MemoryFiles, TestOwner } from '../../internal/testing/index.ts';
import { KeyStore } from './key-store.ts';
import { verifyAnnouncedKeys } from './verify-keys.ts';

const clusterId = 'c1'.repeat(16);
const clock = { nowMs: () => 1_700_000_000_000 };
const STAGE = '/k/s';
let keys: PublicKeys;
let signed: SignedKeys;
let owner: TestOwner;
let files: MemoryFiles;
let store: KeyStore;

beforeAll(async () => {
  const [previous, next] = [await createPairs(1, 1), await createPairs(2, 1)];
  keys = publicKeysOf({ generation: 2, phase: 'distribute', previous, next });
  signed = signedKeysOf(keys);
});
beforeEach(async () => {
  owner = new TestOwner({ clock, clusterId });
  files = new MemoryFiles();
  await files.makeDirectory('/k');
  store = new KeyStore(files, { rotation: '/k/r', newKeys: '/k/n', stage: STAGE, lastKey: '/k/l' });
});

const verify = (documents: readonly Uint8Array[]): Promise<void> =>
  verifyAnnouncedKeys(store, keys, {
    documents,
    trust: { ownerKeys: [owner.pubKey], clusterId, epoch: 2, nowMs: clock.nowMs() },
  });
const document = (body: SignedKeys = signed, over: object = {}, by = owner): Uint8Array =>
  by.sign(
    'keys',
    { generation: body.generation, previous: { ...body.previous }, next: { ...body.next } },
    { epoch: 2, ...over },
  );
const ownersOf = (keep: TestOwner): Uint8Array =>
  owner.sign('owners', { keys: [Buffer.from(keep.pubKey).toString('base64')] });

test('announced keys that an owner has signed are accepted, again and again', async () => {
  const first = document();
  for (const documents of [[first], [first], [document()]]) await verify(documents);
  expect(await store.loadStage()).toEqual({ generation: 1, phase: 'done' });
});

test('on an old disk the announced keys that this node had accepted stay accepted, and an owner may sign newer ones', async () => {
  const [first, lost] = [document(), document()];
  await verify([first]);
  await store.saveFloors({ signedAfterMs: clock.nowMs() + 1 });
  await verify([first]);
  await verify([document(signed, { issuedMs: clock.nowMs() + 1 })]);
  await expect(verify([lost])).rejects.toMatchObject({ code: 'keyrotation-generation-old' });
});

interface Row {
  readonly name: string;
  readonly given: () => readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
  readonly code: string;
}
const rows: readonly Row[] = [
  { name: 'that no owner has signed', given: () => [], code: 'keyrotation-keys-unsigned' },
  {
    name: 'that were signed with a key of somebody who is no owner',
    given: () => [document(signed, {}, new TestOwner({ clock, clusterId }))],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'other than an owner has signed',
    given: () => [document({ ...signed, next: signed.previous })],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'whose previous keys are other than an owner has signed',
    given: () => [document({ ...signed, previous: signed.next })],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'of another generation than an owner has signed',
    given: () => [document({ ...signed, generation: 3 })],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'that an owner has signed for another cluster',
    given: () => [document(signed, { clusterId: 'other' })],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'that an owner has signed before the cluster was restored',
    given: () => [document(signed, { epoch: 1 })],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'that a removed owner has signed',
    given: () => [ownersOf(new TestOwner({ clock, clusterId })), document()],
    code: 'keyrotation-keys-unsigned',
  },
  {
    name: 'with an older document than this node has accepted',
    given: async () => {
      const [old, next] = [document(), document()];
      await verify([next]);
      return [old];
    },
    code: 'keyrotation-generation-old',
  },
  {
    name: 'with another document that has the same serial as the document that this node has accepted',
    given: async () => {
      await verify([document(signed, { serial: 3 })]);
      return [document(signed, { serial: 3, issuedMs: 5 })];
    },
    code: 'keyrotation-generation-old',
  },
  {
    name: 'that an owner has signed before this machine found an old copy of its disk',
    given: async () => {
      await verify([document()]);
      await store.saveFloors({ signedAfterMs: clock.nowMs() + 1 });
      return [document()];
    },
    code: 'owner-document-before-rollback',
  },
  {
    name: 'without the newer owners that this node has accepted',
    given: async () => {
      await verify([ownersOf(owner), document()]);
      return [document()];
    },
    code: 'keyrotation-generation-old',
  },
  {
    name: 'while the file with the accepted documents is damaged',
    given: async () => {
      await files.writeAtomic(STAGE, '{"version":1,"gener');
      return [document()];
    },
    code: 'keyrotation-stage-damaged',
  },
];
describe('verifyAnnouncedKeys() refuses keys', () => {
  test.each(rows)('$name', async ({ given, code }) => {
    const documents = await given();
    const before = await files.read(STAGE, 4096);
    await expect(verify(documents)).rejects.toMatchObject({ code });
    expect(await files.read(STAGE, 4096)).toEqual(before);
  });
});
