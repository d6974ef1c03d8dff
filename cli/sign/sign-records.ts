import { createHash } from 'node:crypto';
import { OwnerDocumentError } from '../../internal/ownerdocument/index.ts';
import { records, SETTINGS_KEY } from '../../internal/records/index.ts';
import { parseClusterConfig } from '../../internal/config/index.ts';
import { NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { callCurator, newMutation } from '../cluster/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { openSigner, policyFor, settingsFor, type DocumentSigner } from './document-signer.ts';
import { grantFor, grantSubjectOf } from './grants.ts';
import { operatorsOnRecord } from './operators.ts';

/** Records that an owner is about to sign. */
interface OnRecord {
  readonly configuration: Uint8Array;
  readonly revision: bigint;
  readonly updatedBy: string;
  readonly operators: Awaited<ReturnType<typeof operatorsOnRecord>>;
  readonly controlPlanes: readonly Node[];
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
    ...policyFor(signer, now.configuration),
    ...settingsFor(signer),
    signer.sign('operators', { operators: [...now.operators] }),
    ...unlisted(now).map((node) =>
      grantFor(signer, grantSubjectOf(node), ['ConsensusMember', 'KubernetesController']),
    ),
  ];
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) => operatorApi.putDocuments({ documents, mutation }));
  context.host.result({ revision: now.revision, documents: documents.length }, () =>
    [`Signed ${documents.length} documents.`, ...lines].join('\n'),
  );
}

async function onRecord(context: CommandContext): Promise<OnRecord> {
  const operators = await operatorsOnRecord(context);
  return callCurator(context, async ({ curator }) => {
    const [configuration, { nodes }] = await Promise.all([
      curator.getConfiguration({}),
      curator.listNodes({}),
    ]);
    return {
      configuration: configuration.document,
      revision: configuration.revision,
      updatedBy: configuration.updatedBy,
      operators,
      controlPlanes: nodes.filter(({ roles }) => roles.includes(NodeRole.CONSENSUS_MEMBER)),
    };
  });
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

/** What joining machines will run: an owner compares the hash of the manifest with that of the bundle. */
function describeSettings({ settings }: DocumentSigner): readonly string[] {
  if (settings.length === 0) return [];
  const { kubernetesVersion, bundleManifest, podSubnet, serviceSubnet, apiEndpoint } =
    records.settings.decode(SETTINGS_KEY, settings);
  const sha256 = createHash('sha256').update(bundleManifest).digest('hex');
  const endpoint = apiEndpoint === undefined ? '' : `, API at ${apiEndpoint}`;
  return [
    `  bundle          Kubernetes ${printable(kubernetesVersion)}, SHA-256 of the manifest ${sha256}`,
    `  networks        pods ${printable(podSubnet)}, services ${printable(serviceSubnet)}${printable(endpoint)}`,
  ];
}

function describe(signer: DocumentSigner, now: OnRecord): readonly string[] {
  const operators = now.operators.map(({ name, role, fingerprint }) => `${name} (${role}, ${fingerprint})`);
  const nodes = now.controlPlanes.map((node) => `${node.name} (${grantSubjectOf(node).identity})`);
  return [
    `  configuration   revision ${now.revision} by ${printable(now.updatedBy) || '<none>'}; see: cluster config show`,
    `  operators       ${operators.map((each) => printable(each)).join(', ')}`,
    `  control planes  ${nodes.map((each) => printable(each)).join(', ')}`,
    ...describeSettings(signer),
    `  owners          ${signer.owners.length === 1 ? 'your key only' : `${signer.owners.length} keys`}`,
  ];
}
