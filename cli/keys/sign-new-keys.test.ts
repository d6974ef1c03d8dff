import type { MessageInitShape } from '@bufbuild/protobuf';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { canonicalJson } from '../../internal/config/index.ts';
import {
  ed25519PubKeyFrom,
  ed25519SpkiFromRaw,
  generateEd25519Key,
  signEd25519,
} from '../../internal/crypto/index.ts';
import {
  createPairs,
  newKeysStatement,
  publicKeysOf,
  signedKeysOf,
  type SignedKeys,
} from '../../internal/keyset/index.ts';
import {
  parseDocument,
  signDocument,
  verifyDocument,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { fingerprintOfKey, nodeIdOf } from '../../internal/pki/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { GetKeysResponseSchema } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../cluster/curator/fake-fast-forward-clock.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey } from '../operators/index.ts';
import { runSign } from '../sign/index.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { plainSecrets } from '../workspace/fake-passphrases.ts';
import { followUntilSigned } from './follow-rotation.ts';
import { runKeysRotate, runKeysShow } from './rotate-keys.ts';

const CONTROL: readonly Role[] = ['ConsensusMember', 'KubernetesController'];
const ROTATE = { reason: '', wait: false, replace: undefined, dryRun: false, yes: true } as const;
const REQUEST = { ...ROTATE, wait: true };

/** A node with its node key. */
function createNode() {
  const keyPem = generateEd25519Key();
  const pubKeyDer = ed25519SpkiFromRaw(ed25519PubKeyFrom(keyPem) ?? new Uint8Array());
  return { keyPem, pubKeyDer, nodeId: nodeIdOf(pubKeyDer) };
}
type TestNode = ReturnType<typeof createNode>;

let signed: SignedKeys;
let other: SignedKeys;
beforeAll(async () => {
  const [previous, next] = [await createPairs(1, 1), await createPairs(2, 1)];
  signed = signedKeysOf(publicKeysOf({ generation: 2, phase: 'distribute', previous, next }));
  other = signedKeysOf(publicKeysOf({ generation: 2, phase: 'distribute', previous: next, next: previous }));
});

/** A cluster in which a node has created new keys. They are distributed as soon as a document is stored. */
async function createRotation() {
  const node = createNode();
  const stored: Uint8Array[] = [];
  const removed: object[] = [];
  const put: Uint8Array[] = [];
  const state = {
    phase: 'asked',
    signed,
    nodeId: node.nodeId,
    publicKey: node.pubKeyDer,
    by: node.keyPem as Secret<string> | undefined,
    epoch: 1n,
  };
  const getKeys = async (): Promise<MessageInitShape<typeof GetKeysResponseSchema>> => ({
    stage: { generation: 2n, phase: put.length > 0 && state.phase === 'asked' ? 'distribute' : state.phase },
    startedBy: 'operator:owner',
    newKeys: {
      ...{ nodeId: state.nodeId, publicKey: state.publicKey },
      signature:
        state.by === undefined
          ? new Uint8Array()
          : signEd25519(state.by, newKeysStatement(harness.clusterId, signed)),
      previousSha256: { ...state.signed.previous },
      nextSha256: { ...state.signed.next },
      isSigned: put.length > 0,
    },
  });
  const document = Buffer.from(
    canonicalJson({
      ...{ version: 1, name: 'prod' },
      attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
    }),
    'utf8',
  );
  const harness = await createCuratorHarness(
    {
      listNodes: async () => ({ nodes: [] }),
      getConfiguration: async () => ({ document, revision: 7n, updatedBy: 'node-1' }),
    },
    {
      getKeys,
      rotateKeys: async () => ({ generation: 2n }),
      listOperators: async () => ({
        operators: [{ name: 'owner', role: 'owner', fingerprint: `sha256:${'0'.repeat(64)}` }],
      }),
      listDocuments: async () => ({
        documents: stored,
        removed,
        epoch: state.epoch,
        settings: new Uint8Array(),
      }),
      putDocuments: async ({ documents }: { readonly documents: readonly Uint8Array[] }) => {
        put.push(...documents);
        return {};
      },
    },
  );
  const ownerKey = await readOwnerKey(plainSecrets(harness.files), layoutOf('/owner'));
  const record = <K extends DocumentKind>(kind: K, body: DocumentBodies[K], serial = 1): void => {
    const head = {
      kind,
      clusterId: harness.clusterId,
      epoch: 1,
      serial,
      issuedMs: 1,
      endsMs: Date.now() + 1e9,
    };
    stored.push(signDocument({ ...head, body }, ownerKey.keyPem));
  };
  const owner = { ...harness.owner, ports: { ...harness.owner.ports, clock: new FastForwardClock() } };
  /** The stored signature over keys, verified as a node verifies it. */
  const signature = () => {
    const found = put.find((bytes) => parseDocument(bytes).kind === 'keys');
    const expected = {
      clusterId: harness.clusterId,
      epoch: 1,
      nowMs: 1,
      floor: undefined,
      kind: 'keys',
    } as const;
    const owners = [Buffer.from(ownerKey.pubKeyBase64, 'base64')];
    return found && verifyDocument(found, { ...expected, owners });
  };
  const pin = (name: string, { nodeId }: Pick<TestNode, 'nodeId'>, clusterId = harness.clusterId) => {
    const { machines } = layoutOf('/owner');
    return harness.files
      .makeDirectory(machines)
      .then(() =>
        harness.files.writeAtomic(
          `${machines}/${name}.json`,
          JSON.stringify({ version: 1, clusterId, name, nodeId }),
        ),
      );
  };
  const grant = (to: TestNode, roles = CONTROL, of = to): void =>
    record('grant', {
      nodeId: to.nodeId,
      fingerprint: fingerprintOfKey(of.pubKeyDer),
      identity: `tpm-ek:${'e'.repeat(64)}`,
      roles: [...roles],
      floors: { owners: 0, policy: 0, operators: 0 },
    });
  return { ...harness, owner, node, state, put, stored, removed, record, signature, pin, grant };
}
type FakeRotation = Awaited<ReturnType<typeof createRotation>>;

describe('cluster keys rotate --no-wait', () => {
  test('signs new keys of a control plane to which an owner granted its role, and then returns', async () => {
    await using fake = await createRotation();
    fake.grant(fake.node);
    await runKeysRotate(fake.owner, ROTATE);
    expect(fake.signature()?.body).toEqual(signed);
    expect(fake.put).toHaveLength(1);
    expect(fake.owner.host.answered).toEqual({ generation: 2, isDone: false });
  });

  test('signs new keys of a control plane that this workspace has seen', async () => {
    await using fake = await createRotation();
    await fake.pin('n3', fake.node);
    await runKeysRotate(fake.owner, ROTATE);
    expect(fake.signature()?.body).toEqual(signed);
  });

  test('signs with the next serial', async () => {
    await using fake = await createRotation();
    fake.grant(fake.node);
    fake.record('keys', { ...signed, generation: 5 }, 6);
    await runKeysRotate(fake.owner, ROTATE);
    expect(fake.signature()?.serial).toBe(7);
  });

  const refused: readonly {
    readonly name: string;
    readonly given: (fake: FakeRotation) => unknown;
    readonly why: string;
  }[] = [
    {
      name: 'that nobody has signed',
      given: (now) => (now.grant(now.node), (now.state.by = undefined)),
      why: 'the signature',
    },
    {
      name: 'that a curator replaced',
      given: (now) => (now.grant(now.node), (now.state.signed = other)),
      why: 'the signature',
    },
    {
      name: 'that another node signed in the name of a control plane',
      given: (now) => {
        const thief = createNode();
        now.grant(now.node);
        Object.assign(now.state, { publicKey: thief.pubKeyDer, by: thief.keyPem });
      },
      why: 'the key of another node',
    },
    {
      name: 'of a node that this workspace has never seen',
      given: (now) => now.pin('n3', createNode()),
      why: 'has not seen this node',
    },
    {
      name: 'of a node that was pinned in another cluster',
      given: (now) => now.pin('n3', now.node, 'other'),
      why: 'has not seen this node',
    },
    {
      name: 'of a control plane whose grant an owner withdrew',
      given: (now) => (now.pin('n3', now.node), now.grant(now.node, ['KubernetesWorker'])),
      why: 'has not granted',
    },
    {
      name: 'of a node whose grant is for another key',
      given: (now) => now.grant(now.node, CONTROL, createNode()),
      why: 'has not granted',
    },
    {
      name: 'of a removed node',
      given: (now) => (now.grant(now.node), now.removed.push({ nodeId: now.node.nodeId, identity: 'x' })),
      why: 'was removed',
    },
  ];
  test.each(refused)('refuses to sign new keys $name', async ({ given, why }) => {
    await using fake = await createRotation();
    await given(fake);
    await expect(runKeysRotate(fake.owner, ROTATE)).rejects.toMatchObject({
      code: 'sign-new-keys-untrusted',
      message: expect.stringContaining(why),
    });
    expect(fake.put).toEqual([]);
  });

  test('signs only once while the curator keeps asking, and reports the rotation as stalled', async () => {
    await using fake = await createRotation();
    fake.grant(fake.node);
    const length = { value: 0 };
    fake.put.push = (...documents) => (length.value += documents.length); // counts the documents instead of storing them
    await expect(runKeysRotate(fake.owner, ROTATE)).rejects.toMatchObject({
      code: 'keys-rotation-stalled',
      message: expect.stringContaining('waiting for an owner to sign the new keys'),
    });
    expect(length.value).toBe(1);
  });
});

test('cluster keys rotate refuses to sign untrusted keys also when it waits', async () => {
  await using fake = await createRotation();
  await expect(runKeysRotate(fake.owner, REQUEST)).rejects.toMatchObject({
    code: 'sign-new-keys-untrusted',
  });
});

test('an operator who is no owner signs nothing', async () => {
  await using fake = await createRotation();
  fake.grant(fake.node);
  const { files, owner } = fake;
  const fingerprint = fingerprintOfKey(
    ed25519SpkiFromRaw(
      ed25519PubKeyFrom((await readOwnerKey(plainSecrets(files), layoutOf('/owner'))).keyPem) ??
        new Uint8Array(),
    ),
  );
  fake.record('operators', { operators: [{ name: 'owner', fingerprint, role: 'owner' }] });
  await runOperatorKey(contextOf(files, '/ann'), 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'operator', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(contextOf(files, '/ann'), '/ann/ann.grant');
  expect(await followUntilSigned(contextOf(files, '/ann'), 2)).toBeUndefined();
  expect(fake.put).toEqual([]);
});

describe('cluster keys show', () => {
  test('says that an owner must sign the new keys', async () => {
    await using fake = await createRotation();
    await runKeysShow(fake.owner);
    expect(fake.owner.host.answered).toMatchObject({ keys: { phase: 'asked', needsOwner: true } });
    const said = fake.owner.host.records
      .flatMap((each) => ('text' in each ? [String(each.text)] : []))
      .join('\n');
    expect(said).toMatch(/^phase 1 of 6: waiting for an owner to sign the new keys, for/m);
  });
});

describe('cluster sign', () => {
  const done = (fake: FakeRotation): FakeRotation => {
    fake.state.phase = 'done';
    return fake;
  };

  test('signs rotated keys that a control plane vouches for', async () => {
    await using fake = done(await createRotation());
    fake.grant(fake.node);
    await runSign(fake.owner, { yes: true });
    expect(fake.signature()?.body).toEqual(signed);
  });

  test('signs rotated keys of an earlier version once, and later only those that a control plane vouches for', async () => {
    await using fake = done(await createRotation());
    fake.state.by = undefined;
    await runSign(fake.owner, { yes: true });
    expect(fake.signature()?.body).toEqual(signed);
    fake.put.length = 0;
    fake.record('keys', other);
    await expect(runSign(fake.owner, { yes: true })).rejects.toMatchObject({
      code: 'sign-new-keys-untrusted',
    });
    expect(fake.put).toEqual([]);
  });

  test('signs again a generation that an owner had already signed', async () => {
    await using fake = done(await createRotation());
    fake.record('keys', signed);
    await runSign(fake.owner, { yes: true });
    expect(fake.signature()).toMatchObject({ serial: 2, body: signed });
  });

  test('after a recovery that lost documents, signs once, with serials above all that a node may have accepted', async () => {
    await using fake = done(await createRotation());
    fake.record('keys', signed, 3);
    fake.state.epoch = 2n;
    await runSign(fake.owner, { yes: true });
    const first = fake.signature();
    expect(first?.serial).toBe(1_003);
    // Each set of owners follows from the one before it, so its serials have no gap.
    expect(fake.put.map(parseDocument).find(({ kind }) => kind === 'owners')?.serial).toBe(1);
    fake.stored.push(...fake.put.splice(0));
    await runSign(fake.owner, { yes: true });
    expect(fake.signature()?.serial).toBe(1_004);
  });

  test('refuses rotated keys of a node that nobody knows', async () => {
    await using fake = done(await createRotation());
    await expect(runSign(fake.owner, { yes: true })).rejects.toMatchObject({
      code: 'sign-new-keys-untrusted',
    });
    expect(fake.put).toEqual([]);
  });
});
