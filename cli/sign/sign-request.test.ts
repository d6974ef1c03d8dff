import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import {
  canonicalJson,
  generateEd25519Key,
  labeledStatement,
  signEd25519,
} from '../../internal/crypto/index.ts';
import { parseDocument, subjectOf, verifyDocument } from '../../internal/ownerdocument/index.ts';
import { pubKeyDerOf } from '../../internal/pki/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { CommandContext, OwnerSignature } from '../app/command.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { readCaller, saveKnownCurators } from '../cluster/index.ts';
import { runConfigApply } from '../configuration/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { runApprove, runReadmit, runSetRole } from '../nodes/index.ts';
import { runOperatorAdd, runOperatorKey, runOperatorRemove } from '../operators/index.ts';
import {
  CONFIGURATION,
  createSignedCluster,
  EK,
  NODE,
  NODE_FINGERPRINT,
  operatorsOf,
} from './fake-signed-cluster.ts';
import { describeProposal } from './describe-proposal.ts';
import { sha256Of, type Proposal } from './proposal.ts';
import { encodeRequest, encodeSignedFile, parseRequest, parseSignedFile } from './request-file.ts';
import { openSigner } from './document-signer.ts';
import { runSignRequest } from './sign-request.ts';

type Cluster = Awaited<ReturnType<typeof createSignedCluster>>;
type Command = (context: CommandContext) => Promise<unknown>;

const REQUEST = '/ann/r';
const SIGNED = '/ann/r.signed';
const yes = { yes: true, out: undefined };
const CONTROL = ['ConsensusMember', 'KubernetesController'];
const floors = { owners: 0, policy: 0, operators: 0 };
const GRANT: Proposal & { readonly kind: 'grant' } = {
  kind: 'grant',
  body: {
    ...{ nodeId: NODE.nodeId, fingerprint: NODE_FINGERPRINT, identity: EK, floors },
    roles: ['ConsensusMember', 'KubernetesController'],
  },
};

const approve: Command = (context) =>
  runApprove(context, NODE.nodeId, { name: undefined, roles: ['control-plane'], labels: {} });
const setRole: Command = (context) =>
  runSetRole(context, 'n2', {
    ...{ roles: ['control-plane', 'worker'], dryRun: false, yes: true },
    drain: { force: false, deleteEmptyDirData: false, timeoutMs: 1 },
  });
const apply: Command = async (context) => {
  const changed = { ...CONFIGURATION, join: { ...CONFIGURATION.join, policy: 'auto' } };
  await context.ports.files.writeAtomic('/ann/new.yaml', stringify(changed));
  return runConfigApply(context, { file: '/ann/new.yaml', dryRun: false, yes: true, onto: 7n });
};
const readmit: Command = (context) => runReadmit(context, 'w9');
const removeAnn: Command = (context) => runOperatorRemove(context, 'ann', { dryRun: false, yes: true });
/** Runs a command of the operator with `--request-signature` or `--signed`. */
function asAnn({ ann }: Cluster, run: Command, ownerSignature: OwnerSignature | undefined): Promise<unknown> {
  return run({ ...ann, ownerSignature });
}

async function request(cluster: Cluster, run: Command, path = REQUEST): Promise<void> {
  await expect(asAnn(cluster, run, { kind: 'request', path })).rejects.toMatchObject({
    code: 'owner-document-required',
    message: expect.stringContaining(path),
    fix: expect.stringContaining(`cluster sign ${path}`),
  });
}

const submit = (cluster: Cluster, run: Command) => asAnn(cluster, run, { kind: 'signed', path: SIGNED });

const read = async ({ files }: Cluster, path: string) => (await files.read(path, 1e7)) ?? new Uint8Array();

const COMMANDS: readonly {
  readonly name: string;
  readonly run: Command;
  readonly sends: readonly string[];
  readonly shows: readonly string[];
}[] = [
  {
    name: 'node approve',
    run: approve,
    sends: ['decideJoin', 'grant 1'],
    shows: [
      `  control plane   machine ${EK} may become one`,
      '    roles         control-plane',
      `    node          ${NODE.nodeId}, not known to this workspace`,
      `    key           ${NODE_FINGERPRINT}`,
      '    before        <none>',
    ],
  },
  {
    name: 'node set-role',
    run: (context) => setRole(context).catch((error: { code?: string }) => stoppedOr(error)),
    sends: ['setNodeRoles', 'grant 1'],
    shows: ['    roles         control-plane, worker'],
  },
  {
    name: 'config apply',
    run: apply,
    sends: ['updateConfiguration', 'policy 5'],
    shows: ['    join.policy', '      before      "inventory"', '      after       "auto"'],
  },
  {
    name: 'node readmit',
    run: readmit,
    sends: ['putDocuments', 'readmission 1'],
    shows: [
      `  readmission     machine ${EK} may ask to join again`,
      '    lifts         its removal number 3, and no other',
    ],
  },
  {
    name: 'operator remove',
    run: removeAnn,
    sends: ['deleteOperator', 'operators 2'],
    shows: ['  operators       from now on, these and no others:'],
  },
];

function stoppedOr(error: { readonly code?: string }): void {
  if (error.code !== 'test-stopped') throw error;
}

describe('an operator without an owner key', () => {
  test.each(COMMANDS)(
    '$name writes a request, which an owner signs without a connection, and sends what was signed',
    async ({ run, sends, shows }) => {
      await using cluster = await createSignedCluster();
      await request(cluster, run);
      expect(cluster.takeSent()).toEqual([]);

      const before = cluster.reads.count + cluster.asked.length;
      await runSignRequest(cluster.owner, REQUEST, yes);
      expect(cluster.reads.count + cluster.asked.length).toBe(before);
      const [said] = cluster.owner.host.records.filter(({ kind }) => kind === 'say');
      const lines = said?.kind === 'say' ? said.text.split('\n') : [];
      expect(lines[0]).toMatch(/^Request of the operator ann, 20/);
      expect(lines).toEqual(expect.arrayContaining([...shows]));

      await submit(cluster, run);
      expect(cluster.takeSent()).toEqual([sends]);
      await submit(cluster, run);
      expect(cluster.takeSent()).toEqual([sends]);
    },
  );

  test('operator add shows every operator, and who is new and who is gone', async () => {
    await using cluster = await createSignedCluster();
    const { files, owner, clock, ownerKey, annKey } = cluster;
    await files.makeDirectory('/bob');
    await runOperatorKey(contextOf(files, '/bob', undefined, clock), 'bob', { request: undefined });
    const add: Command = (context) =>
      runOperatorAdd(context, 'ann', { role: 'viewer', request: '/bob/bob.csr', out: undefined });
    await request(cluster, add);
    await runSignRequest(owner, REQUEST, yes);
    const [own, ann] = operatorsOf(ownerKey, { ann: annKey }).operators;
    expect(saidBy(owner.host)).toEqual([
      '  operators       from now on, these and no others:',
      `    stays         owner (owner, ${own?.fingerprint ?? ''})`,
      expect.stringMatching(/^ {4}NEW {11}ann \(viewer, sha256:[0-9a-f]{64}\)$/),
      `    GONE          ann (operator, ${ann?.fingerprint ?? ''})`,
    ]);
    await submit(cluster, add);
    expect(cluster.ann.host.records.at(-1)).toMatchObject({ data: { name: 'ann', role: 'viewer' } });
  });

  test.each([
    { name: 'node approve of a worker', run: approveWorker },
    { name: 'node set-role of a worker', run: (context: CommandContext) => setRoleWorker(context) },
  ])('$name writes no request, because no signature is needed', async ({ run }) => {
    await using cluster = await createSignedCluster();
    await expect(asAnn(cluster, run, { kind: 'request', path: REQUEST })).rejects.toMatchObject({
      code: 'app-usage',
      message: 'this change needs no signature of an owner',
    });
    expect(cluster.takeSent()).toEqual([]);
  });

  test('does not overwrite a file with a request', async () => {
    await using cluster = await createSignedCluster();
    await cluster.files.writeAtomic(REQUEST, 'mine');
    await expect(asAnn(cluster, approve, { kind: 'request', path: REQUEST })).rejects.toMatchObject({
      code: 'sign-file-exists',
    });
    expect(Buffer.from(await read(cluster, REQUEST)).toString()).toBe('mine');
  });

  test('cannot sign a request', async () => {
    await using cluster = await createSignedCluster();
    await request(cluster, approve);
    await expect(runSignRequest(cluster.ann, REQUEST, yes)).rejects.toMatchObject({
      code: 'owner-document-required',
    });
    expect(await cluster.files.stat(SIGNED)).toBeUndefined();
  });

  test('cannot ask for another owner', async () => {
    await using cluster = await createSignedCluster();
    await expect(
      asAnn(
        cluster,
        (context) =>
          runOperatorAdd(context, 'bob', { role: 'owner', request: '/ann/ann.csr', out: undefined }),
        { kind: 'request', path: REQUEST },
      ),
    ).rejects.toMatchObject({ code: 'sign-request-owners' });
  });

  test('with an owner key has no use for the flags', async () => {
    await using cluster = await createSignedCluster();
    const ownerSignature = { kind: 'request', path: REQUEST } as const;
    await expect(approve({ ...cluster.owner, ownerSignature })).rejects.toMatchObject({ code: 'app-usage' });
    expect(cluster.takeSent()).toEqual([]);
  });
});

function approveWorker(context: CommandContext): Promise<unknown> {
  return runApprove(context, NODE.nodeId, { name: undefined, roles: ['worker'], labels: {} });
}

async function setRoleWorker(context: CommandContext): Promise<unknown> {
  const { grantForNode } = await import('./index.ts');
  return grantForNode(context, NODE as never, NODE.roles);
}

function saidBy(host: RecordingHost): readonly string[] {
  const said = host.records.find(({ kind }) => kind === 'say');
  return said?.kind === 'say' ? said.text.split('\n').slice(1) : [];
}

/** Writes a request with the key of an operator, as that operator could. */
async function write(
  cluster: Cluster,
  over: Partial<Parameters<typeof encodeRequest>[0]> = {},
  keyPem = cluster.annKey,
): Promise<void> {
  const content = {
    ...{ clusterId: cluster.clusterId, epoch: 1, requestedMs: 1 },
    ...{ proposals: [GRANT], documents: cluster.onRecord.documents, ...over },
  };
  await cluster.files.writeAtomic(REQUEST, encodeRequest(content, keyPem));
}

/** The request that `write()` wrote, as JSON. */
async function readRequest(cluster: Cluster): Promise<object> {
  await write(cluster);
  const text = Buffer.from(await read(cluster, REQUEST)).toString();
  return (JSON.parse(text) as { readonly request: object }).request;
}

/** A request file that this key has signed, whatever the request says. */
function signedBy(keyPem: Secret<string>, request: object): string {
  const statement = labeledStatement('cluster/authority/request/v1\0', canonicalJson(request));
  const signature = Buffer.from(signEd25519(keyPem, statement)).toString('base64');
  return `${canonicalJson({ request, signature })}\n`;
}

/** The owner's workspace knows the node, on this machine. */
async function pin({ files, clusterId }: Cluster, identity: string | undefined): Promise<void> {
  await files.makeDirectory('/owner/machines');
  const known = { version: 1, clusterId, name: 'n2', nodeId: NODE.nodeId, identity };
  await files.writeAtomic('/owner/machines/n2.json', JSON.stringify(known));
}

const POLICY = (before: string, after: string): Proposal => ({ kind: 'policy', before, after });

describe('cluster sign FILE refuses a request', () => {
  const edited = (change: (text: string) => string) => async (cluster: Cluster) => {
    await write(cluster);
    const text = Buffer.from(await read(cluster, REQUEST)).toString();
    await cluster.files.writeAtomic(REQUEST, change(text));
  };
  const proposing =
    (proposal: (cluster: Cluster) => Proposal) =>
    (cluster: Cluster): Promise<void> =>
      write(cluster, { proposals: [proposal(cluster)] });

  test.each<{ name: string; code: string; write: (cluster: Cluster) => Promise<void> }>([
    { name: 'that is truncated', code: 'sign-file-malformed', write: edited((text) => text.slice(0, -9)) },
    {
      name: 'in another encoding',
      code: 'sign-file-malformed',
      write: edited((text) => text.replace('{"request"', '{ "request"')),
    },
    {
      name: 'whose bytes are not UTF-8',
      code: 'sign-file-malformed',
      write: async (cluster) => {
        await write(cluster, { proposals: [POLICY(cluster.text, '\ufffd')] });
        const bytes = Buffer.from(await read(cluster, REQUEST));
        const at = bytes.indexOf('\ufffd');
        const other = Buffer.concat([bytes.subarray(0, at), Buffer.from([0xff]), bytes.subarray(at + 3)]);
        await cluster.files.writeAtomic(REQUEST, other);
      },
    },
    {
      name: 'with an unknown member',
      code: 'sign-file-malformed',
      write: edited((text) => text.replace('"version":1}', '"version":1,"x":1}')),
    },
    {
      name: 'from a time that no calendar has',
      code: 'sign-file-malformed',
      write: async (cluster) => {
        const request = { ...(await readRequest(cluster)), requestedMs: Number.MAX_SAFE_INTEGER };
        await cluster.files.writeAtomic(REQUEST, signedBy(cluster.annKey, request));
      },
    },
    {
      name: 'whose machine was changed',
      code: 'sign-request-altered',
      write: edited((text) => text.replace(EK, EK.replace(/e$/, 'f'))),
    },
    {
      name: 'with a document that no owner has signed',
      code: 'sign-request-altered',
      write: (cluster) => {
        const forged = cluster.sign(
          'policy',
          { configurationSha256: '0'.repeat(64) },
          { by: generateEd25519Key() },
        );
        return write(cluster, { documents: [...cluster.onRecord.documents, forged] });
      },
    },
    {
      name: 'for another cluster',
      code: 'sign-request-other-cluster',
      write: (cluster) => write(cluster, { clusterId: 'other' }),
    },
    {
      name: 'for an epoch that nobody has signed in',
      code: 'sign-request-epoch',
      write: (cluster) => write(cluster, { epoch: 2 }),
    },
    {
      name: 'from before a recovery that this workspace knows of',
      code: 'sign-request-epoch',
      write: async (cluster) => {
        const { curatorsPath } = await readCaller(cluster.owner);
        await saveKnownCurators(cluster.files, curatorsPath, { epoch: 2n, directory: [] });
        await write(cluster);
      },
    },
    {
      name: 'from before a recovery after which an owner has signed',
      code: 'sign-request-epoch',
      write: async (cluster) => {
        const later = cluster.sign(
          'policy',
          { configurationSha256: '0'.repeat(64) },
          { serial: 9, epoch: 2 },
        );
        await write(cluster, { documents: [...cluster.onRecord.documents, later] });
      },
    },
    {
      name: 'of a key that is no operator’s',
      code: 'sign-request-requester',
      write: (cluster) => write(cluster, {}, generateEd25519Key()),
    },
    {
      name: 'of an operator who was removed, with the newer list before the older one',
      code: 'sign-request-requester',
      write: async (cluster) => {
        const without = cluster.sign('operators', operatorsOf(cluster.ownerKey), { serial: 2 });
        await write(cluster, { documents: [without, ...cluster.onRecord.documents] });
      },
    },
    {
      name: 'of a viewer',
      code: 'sign-request-requester',
      write: async (cluster) => {
        const body = operatorsOf(cluster.ownerKey, { ann: cluster.annKey });
        const operators = body.operators.map((each) =>
          each.name === 'ann' ? { ...each, role: 'viewer' as const } : each,
        );
        const viewers = cluster.sign('operators', { operators }, { serial: 2 });
        await write(cluster, { documents: [...cluster.onRecord.documents, viewers] });
      },
    },
    {
      name: 'for a node ID that belongs to another key',
      code: 'sign-request-unfounded',
      write: proposing(() => ({
        kind: 'grant',
        body: { ...GRANT.body, fingerprint: `sha256:${'0'.repeat(64)}` },
      })),
    },
    {
      name: 'for a known node on another machine',
      code: 'sign-request-unfounded',
      write: async (cluster) => {
        await pin(cluster, `tpm-ek:${'a'.repeat(64)}`);
        await write(cluster);
      },
    },
    {
      name: 'for a configuration that follows from one that no owner has signed',
      code: 'sign-request-unfounded',
      write: proposing(({ text }) => POLICY(text.replace('inventory"', 'auto"'), text)),
    },
    {
      name: 'for a configuration in another encoding',
      code: 'sign-request-unfounded',
      write: proposing(({ text }) => POLICY(text, text.replace('{', '{"name":"x",'))),
    },
    {
      name: 'for a configuration that is nested too deeply',
      code: 'sign-request-unfounded',
      write: proposing(({ text }) => POLICY(text, '['.repeat(100_000) + ']'.repeat(100_000))),
    },
    {
      name: 'for a configuration that is invalid',
      code: 'config-invalid',
      write: proposing(({ text }) => POLICY(text, canonicalJson({ ...CONFIGURATION, unknown: 1 }))),
    },
    {
      name: 'from a removed owner who leaves out the removal, and signs operators and a configuration',
      code: 'sign-request-unfounded',
      write: async (cluster) => {
        const { owner, ownerKey, onRecord, sign, text } = cluster;
        const [gone, fake] = [generateEd25519Key(), generateEd25519Key()];
        const raw = (key: Secret<string>): string =>
          Buffer.from(pubKeyDerOf(key).slice(-32)).toString('base64');
        const both = sign('owners', { keys: [raw(ownerKey), raw(gone)] });
        onRecord.documents.push(both, sign('owners', { keys: [raw(ownerKey)] }, { serial: 2 }));
        await openSigner(owner);
        const before = text.replace('"policy":"inventory"', '"policy":"auto"');
        const documents = [
          both,
          sign('operators', operatorsOf(ownerKey, { ann: fake }), { serial: 50, by: gone }),
          sign('policy', { configurationSha256: sha256Of(before) }, { serial: 50, by: gone }),
        ];
        const after = before.replace('"labels":{}', '"labels":{"a":"b"}');
        await write(cluster, { documents, proposals: [POLICY(before, after)] }, fake);
      },
    },
    {
      name: 'of an operator whom this workspace has removed, and who leaves out the removal',
      code: 'sign-request-unfounded',
      write: async (cluster) => {
        await removeAnn(cluster.owner);
        await write(cluster);
      },
    },
    {
      name: 'for a configuration based on one that was never submitted, after this workspace applied another one',
      code: 'sign-request-unfounded',
      write: async (cluster) => {
        const neverSent = cluster.text.replace('"labels":{}', '"labels":{"z":"1"}');
        const sha256 = { configurationSha256: sha256Of(neverSent) };
        const documents = [...cluster.onRecord.documents, cluster.sign('policy', sha256, { serial: 5 })];
        await apply(cluster.owner);
        const after = neverSent.replace('"labels":{"z"', '"labels":{"a":"b","z"');
        await write(cluster, { documents, proposals: [POLICY(neverSent, after)] });
      },
    },
    {
      name: 'that makes the operator an owner',
      code: 'sign-request-owners',
      write: proposing(({ ownerKey, annKey }) => {
        const [own, ann] = operatorsOf(ownerKey, { ann: annKey }).operators;
        if (own === undefined || ann === undefined) throw new TypeError('no operators');
        return { kind: 'operators', body: { operators: [own, { ...ann, role: 'owner' }] } };
      }),
    },
    {
      name: 'after the owner was removed',
      code: 'owner-document-required',
      write: (cluster) => {
        const next = generateEd25519Key();
        const keys = [Buffer.from(pubKeyDerOf(next).slice(-32)).toString('base64')];
        const { documents } = cluster.onRecord;
        return write(cluster, { documents: [...documents, cluster.sign('owners', { keys })] });
      },
    },
  ])('$name', async ({ write: prepare, code }) => {
    await using cluster = await createSignedCluster();
    await prepare(cluster);
    await expect(runSignRequest(cluster.owner, REQUEST, yes)).rejects.toMatchObject({ code });
    expect(await cluster.files.stat(SIGNED)).toBeUndefined();
  });

  test('that this workspace cannot compare with the documents it has seen', async () => {
    await using cluster = await createSignedCluster();
    await openSigner(cluster.owner);
    const [path = ''] = (await cluster.files.list('/owner')).filter((name) => name.startsWith('seen-'));
    await cluster.files.writeAtomic(`/owner/${path}`, '{"version":2}');
    await request(cluster, approve);
    await expect(runSignRequest(cluster.owner, REQUEST, yes)).rejects.toMatchObject({
      code: 'sign-request-unfounded',
      message: expect.stringContaining('seen-documents.json is damaged'),
    });
  });

  test('that the owner declines', async () => {
    await using cluster = await createSignedCluster();
    await request(cluster, approve);
    const declining = { ...cluster.owner, host: new RecordingHost({ answer: () => false }) };
    await expect(runSignRequest(declining, REQUEST, { ...yes, yes: false })).rejects.toMatchObject({
      code: 'owner-document-required',
    });
    expect(await cluster.files.stat(SIGNED)).toBeUndefined();
  });

  test('whose signed file exists, and keeps that file', async () => {
    await using cluster = await createSignedCluster();
    await request(cluster, approve);
    await cluster.files.writeAtomic(SIGNED, 'mine');
    await expect(runSignRequest(cluster.owner, REQUEST, yes)).rejects.toMatchObject({
      code: 'sign-file-exists',
    });
    expect(Buffer.from(await read(cluster, SIGNED)).toString()).toBe('mine');
  });
});

describe('cluster sign FILE', () => {
  test('signs although the owner who signed an earlier set of owners was removed', async () => {
    await using cluster = await createSignedCluster();
    const { owner, ownerKey, onRecord, sign } = cluster;
    const gone = generateEd25519Key();
    const [own, other] = [ownerKey, gone].map((key) =>
      Buffer.from(pubKeyDerOf(key).slice(-32)).toString('base64'),
    ) as [string, string];
    const both = { keys: [own, other] };
    onRecord.documents.push(sign('owners', both), sign('owners', both, { serial: 2, by: gone }));
    await openSigner(owner); // this workspace has seen the set that `gone` signed
    onRecord.documents.push(sign('owners', { keys: [own] }, { serial: 3 }));
    await request(cluster, approve);
    await runSignRequest(owner, REQUEST, yes);
    expect(await cluster.files.stat(SIGNED)).toBeDefined();
  });

  test('signs a grant with the lowest serials of the verified documents, not those of the request', async () => {
    await using cluster = await createSignedCluster();
    await write(cluster);
    await runSignRequest(cluster.owner, REQUEST, { yes: true, out: '/owner/out' });
    const [signed = new Uint8Array()] = parseSignedFile(await read(cluster, '/owner/out')).documents;
    expect(parseDocument(signed).body).toEqual({
      ...GRANT.body,
      roles: CONTROL,
      floors: { ...floors, policy: 4, operators: 1 },
    });
  });

  test('shows what was granted before, and that a withdrawal grants nothing', async () => {
    await using cluster = await createSignedCluster();
    const { documents } = cluster.onRecord;
    const granted = cluster.sign('grant', GRANT.body, { serial: 7 });
    const withdrawal: Proposal = { kind: 'grant', body: { ...GRANT.body, roles: ['KubernetesWorker'] } };
    await write(cluster, { proposals: [withdrawal], documents: [...documents, granted] });
    await runSignRequest(cluster.owner, REQUEST, yes);
    expect(saidBy(cluster.owner.host)).toMatchObject({
      0: `  withdrawal      machine ${EK} is no control plane any more`,
      4: `    before        control-plane on machine ${EK}`,
    });
    const [signed = new Uint8Array()] = parseSignedFile(await read(cluster, SIGNED)).documents;
    expect(parseDocument(signed).serial).toBe(8);
  });

  test.each([
    { name: 'the node and its machine', identity: EK, text: 'known to this workspace' },
    {
      name: 'the node only',
      identity: undefined,
      text: 'known to this workspace, but not on which machine',
    },
  ])('says that the workspace knows $name', async ({ identity, text }) => {
    await using cluster = await createSignedCluster();
    await pin(cluster, identity);
    await write(cluster);
    await runSignRequest(cluster.owner, REQUEST, yes);
    expect(saidBy(cluster.owner.host)).toContain(`    node          ${NODE.nodeId}, ${text}`);
  });

  test('shows when the configuration was signed that a request is based on, which may not be the active one', async () => {
    await using cluster = await createSignedCluster();
    const neverSent = cluster.text.replace('"policy":"inventory"', '"policy":"auto"');
    const document = cluster.sign(
      'policy',
      { configurationSha256: sha256Of(neverSent) },
      { serial: 5, issuedMs: Date.UTC(2026, 1, 3) },
    );
    await write(cluster, {
      documents: [...cluster.onRecord.documents, document],
      proposals: [POLICY(neverSent, neverSent.replace('"labels":{}', '"labels":{"a":"b"}'))],
    });
    await runSignRequest(cluster.owner, REQUEST, yes);
    expect(saidBy(cluster.owner.host)[0]).toMatch(
      /; differs from the one signed on 2026-02-03T00:00:00\.000Z \(serial 5\) in:$/,
    );
  });

  test('shows whole texts, without control characters', () => {
    const unsigned = { newest: () => undefined } as never;
    const gone = describeProposal(unsigned, POLICY('{"l":[{"identity":"x"}]}', '{"l":[]}'), new Map());
    expect(gone.slice(1)).toEqual([
      '    l.[x]',
      '      before      {"identity":"x"}',
      '      after       <none>',
    ]);
    const after = JSON.stringify({ a: { 'k\u202e': `${'x'.repeat(9_000)}\u001b[2J` } });
    const lines = describeProposal(unsigned, POLICY('{"a":{}}', after), new Map());
    expect(lines.slice(1)).toEqual([
      '    a.k?',
      '      before      <none>',
      `      after       "${'x'.repeat(9_000)}\\u001b[2J"`,
    ]);
  });
});

describe('a signed file is refused', () => {
  const GRANTED = { ...GRANT.body, floors };
  test.each<{ name: string; code: string; prepare: (cluster: Cluster) => Promise<void> | void }>([
    {
      name: 'if another document has its serial by now',
      code: 'owner-document-serial-conflict',
      prepare: ({ onRecord, sign }) =>
        void onRecord.documents.push(sign('grant', { ...GRANTED, identity: `tpm-ek:${'a'.repeat(64)}` })),
    },
    {
      name: 'if a newer document exists',
      code: 'owner-document-serial-old',
      prepare: ({ onRecord, sign }) => void onRecord.documents.push(sign('grant', GRANTED, { serial: 2 })),
    },
    {
      name: 'after a recovery',
      code: 'owner-document-epoch-old',
      prepare: ({ onRecord }) => void (onRecord.epoch = 2n),
    },
    {
      name: 'after its end',
      code: 'owner-document-expired',
      prepare: ({ clock }) => void (clock.aheadMs = 8 * 24 * 3600 * 1000),
    },
    {
      name: 'if the owner was removed meanwhile',
      code: 'owner-document-signer-unknown',
      prepare: ({ onRecord, sign }) => {
        const keys = [Buffer.from(pubKeyDerOf(generateEd25519Key()).slice(-32)).toString('base64')];
        onRecord.documents.push(sign('owners', { keys }));
      },
    },
    {
      name: 'if it was signed for another cluster',
      code: 'owner-document-cluster-mismatch',
      prepare: async ({ files, sign }) => {
        const documents = [sign('grant', GRANTED, { of: 'other' })];
        await files.writeAtomic(SIGNED, encodeSignedFile({ clusterId: 'other', documents }));
      },
    },
    {
      name: 'if it was signed for another change',
      code: 'sign-signed-other',
      prepare: async ({ files, sign, clusterId }) => {
        const documents = [sign('grant', { ...GRANTED, roles: ['KubernetesWorker'] })];
        await files.writeAtomic(SIGNED, encodeSignedFile({ clusterId, documents }));
      },
    },
    {
      name: 'if it is damaged',
      code: 'sign-file-malformed',
      prepare: async (cluster) => {
        const text = Buffer.from(await read(cluster, SIGNED)).toString();
        await cluster.files.writeAtomic(SIGNED, text.slice(0, -9));
      },
    },
    {
      name: 'if it is missing',
      code: 'app-usage',
      prepare: ({ files }) => files.remove(SIGNED),
    },
  ])('$name', async ({ prepare, code }) => {
    await using cluster = await createSignedCluster();
    await request(cluster, approve);
    await runSignRequest(cluster.owner, REQUEST, yes);
    await prepare(cluster);
    await expect(submit(cluster, approve)).rejects.toMatchObject({ code });
    expect(cluster.takeSent()).toEqual([]);
  });
});

test('a request contains only the documents that the new ones follow', async () => {
  await using cluster = await createSignedCluster();
  const { onRecord, sign } = cluster;
  onRecord.documents.push(sign('readmission', { identity: EK, removal: 1 }), sign('grant', GRANT.body));
  await request(cluster, approve);
  const { documents, proposals } = parseRequest(await read(cluster, REQUEST));
  expect(documents.map((bytes) => parseDocument(bytes).kind)).toEqual(['operators', 'policy', 'grant']);
  expect(proposals).toMatchObject([{ kind: 'grant', body: { nodeId: NODE.nodeId } }]);
  const [grant = new Uint8Array()] = documents.slice(-1);
  expect(subjectOf(parseDocument(grant))).toBe(NODE.nodeId);
  verifyDocument(grant, {
    ...{ kind: 'grant', clusterId: cluster.clusterId, epoch: 1, nowMs: 1, floor: undefined },
    owners: [pubKeyDerOf(cluster.ownerKey).slice(-32)],
  });
});
