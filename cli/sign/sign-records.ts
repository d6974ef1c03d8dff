import { OwnerDocumentError } from '../../internal/ownerdocument/index.ts';
import { records, SETTINGS_KEY } from '../../internal/records/index.ts';
import { canonicalJson, parseClusterConfig } from '../../internal/config/index.ts';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator, fetchKeysView, newMutation, type NewKeysView } from '../cluster/index.ts';
import { counted, printable } from '../../internal/printable/index.ts';
import { openSigner, settingsFor, type DocumentSigner } from './document-signer.ts';
import { grantFor, grantSubjectOf } from './grants.ts';
import { requireKnownMaker } from './known-maker.ts';
import { operatorsOnRecord } from './operators.ts';
import { sha256Of } from './proposal.ts';

/** Records that an owner is about to sign. */
interface OnRecord {
  readonly configuration: Uint8Array;
  readonly revision: bigint;
  readonly updatedBy: string;
  readonly operators: Awaited<ReturnType<typeof operatorsOnRecord>>;
  readonly controlPlanes: readonly Node[];
  /** The shared keys, if they were rotated. */
  readonly keys: NewKeysView | undefined;
}

/**
 * `cluster sign`: an owner checks and signs the current records. Needed in a cluster created before owner
 * documents existed, after a recovery, or when a document has expired. No other command signs what the
 * records contain.
 */
export async function runSign(context: CommandContext, options: { readonly yes: boolean }): Promise<void> {
  const signer = await openSigner(context);
  if (signer === undefined)
    throw new OwnerDocumentError('owner-document-required', 'signing the records: requires role owner');
  const now = await onRecord(context);
  if (now.keys !== undefined) await requireSignable(context, signer, now.keys);
  const lines = describe(signer, now);
  context.host.say('sign-record', lines.join('\n'), { revision: now.revision });
  if (!options.yes && !(await context.host.confirm('Sign these records?', false)))
    throw new OwnerDocumentError(
      'owner-document-required',
      'signing the records: not confirmed; use --yes in a script',
    );
  const documents = [
    ...(signer.documents.some(({ kind }) => kind === 'owners')
      ? []
      : [signer.sign('owners', { keys: [...signer.owners] })]),
    signer.sign('policy', { configurationSha256: sha256Of(now.configuration) }),
    ...settingsFor(signer),
    ...keysFor(signer, now),
    signer.sign('operators', { operators: [...now.operators] }),
    ...unlisted(now).map((node) =>
      signer.sign(
        'grant',
        grantFor(signer, grantSubjectOf(node), ['ConsensusMember', 'KubernetesController']),
      ),
    ),
  ];
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) => operatorApi.putDocuments({ documents, mutation }));
  context.host.result({ revision: now.revision, documents: documents.length }, () =>
    [`Signed ${counted(documents.length, 'document')}.`, ...lines].join('\n'),
  );
}

async function onRecord(context: CommandContext): Promise<OnRecord> {
  const operators = await operatorsOnRecord(context);
  return callCurator(context, async (clients) => {
    const { curator } = clients;
    const [configuration, { nodes }, keys] = await Promise.all([
      curator.getConfiguration({}),
      curator.listNodes({}),
      fetchKeysView(clients),
    ]);
    return {
      configuration: configuration.document,
      revision: configuration.revision,
      updatedBy: configuration.updatedBy,
      operators,
      controlPlanes: nodes.filter(({ roles }) => roles.includes(NodeRole.CONSENSUS_MEMBER)),
      keys: keys?.newKeys,
    };
  });
}

/**
 * Signs the shared keys on record, or else the shared keys that an owner signed last; nothing before the first
 * rotation.
 */
function keysFor(signer: DocumentSigner, { keys }: OnRecord): Uint8Array[] {
  const body = keys?.signed ?? signer.newest('keys')?.body;
  return body === undefined
    ? []
    : [signer.sign('keys', { ...body, previous: { ...body.previous }, next: { ...body.next } })];
}

/**
 * Requires that the shared keys are those that an owner signed before, or that a control plane of the cluster vouches
 * for them. Only keys that an earlier version of the agent created lack the signature of a node; an owner accepts them
 * once, by their hash.
 */
async function requireSignable(
  context: CommandContext,
  signer: DocumentSigner,
  keys: NewKeysView,
): Promise<void> {
  const before = signer.newest('keys')?.body;
  if (before !== undefined && canonicalJson(before) === canonicalJson(keys.signed)) return;
  if (before === undefined && keys.signature === '') return;
  await requireKnownMaker(context, signer, keys);
}

/** Control planes that the inventory does not list, each of which therefore needs a grant. */
function unlisted({ configuration, controlPlanes }: OnRecord): readonly Node[] {
  const config = parseClusterConfig(
    Buffer.from(configuration).toString('utf8'),
    'the configuration of the cluster',
  );
  const listed = new Set(
    config.join.inventory
      .filter(({ roles }) => roles.includes('control-plane'))
      .map(({ identity }) => identity),
  );
  return controlPlanes.filter((node) => !listed.has(grantSubjectOf(node).identity));
}

/**
 * The settings that joining machines get. An owner can compare the hash of the manifest with the hash of the bundle.
 */
function describeSettings({ settings }: DocumentSigner): readonly string[] {
  if (settings.length === 0) return [];
  const { kubernetesVersion, bundleManifest, podSubnet, serviceSubnet, apiEndpoint } =
    records.settings.decode(SETTINGS_KEY, settings);
  const sha256 = sha256Of(bundleManifest);
  const endpoint = apiEndpoint === undefined ? '' : `, API at ${apiEndpoint}`;
  return [
    `  bundle          Kubernetes ${printable(kubernetesVersion)}, SHA-256 of the manifest ${sha256}`,
    `  networks        pods ${printable(podSubnet)}, services ${printable(serviceSubnet)}${printable(endpoint)}`,
  ];
}

/** The keys that an owner is about to sign: their hash tells apart two sets of one generation. */
function describeKeys({ keys }: OnRecord): readonly string[] {
  if (keys === undefined) return [];
  const sha256 = sha256Of(canonicalJson(keys.signed));
  const by = keys.signature === '' ? 'no node vouches for them' : `created by ${printable(keys.nodeId)}`;
  return [`  shared keys     generation ${keys.signed.generation}, SHA-256 ${sha256}, ${by}`];
}

function describe(signer: DocumentSigner, now: OnRecord): readonly string[] {
  const operators = now.operators.map(({ name, role, fingerprint }) => `${name} (${role}, ${fingerprint})`);
  const nodes = now.controlPlanes.map((node) => `${node.name} (${grantSubjectOf(node).identity})`);
  return [
    `  configuration   revision ${now.revision} by ${printable(now.updatedBy) || '<none>'}; see: cluster config show`,
    `  operators       ${operators.map((each) => printable(each)).join(', ')}`,
    `  control planes  ${nodes.map((each) => printable(each)).join(', ')}`,
    ...describeSettings(signer),
    ...describeKeys(now),
    `  owners          ${signer.owners.length === 1 ? 'your key only' : `${signer.owners.length} keys`}`,
  ];
}
