import { formatDuration } from '../../internal/clock/index.ts';
import { rawFromEd25519Spki } from '../../internal/crypto/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { fingerprintOfKey, verifyCertificateRequest } from '../../internal/pki/index.ts';
import { OPERATOR_ROLES } from '../../internal/role/index.ts';
import type { CommandContext } from '../app/command.ts';
import { findNewestDecision } from '../audit/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { saveSubmittedDocuments, signedOperators } from '../sign/index.ts';
import { isGrantOf, renderGrant, type OperatorGrant } from '../workspace/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { confirmPut } from './operator-losses.ts';
import { signOwnership, vouchersFor } from './ownership.ts';
import { kubernetesEndpointOf, readCaller, type Caller, callCurator, newMutation } from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';
import { checkOutput, writeOutput } from '../app/output-file.ts';

/**
 * Warning after the removal of an owner: an administrator of Kubernetes may have created credentials that are not tied
 * to the key of an operator.
 */
const OWNER_LEFTOVERS =
  'Tokens and certificates that this owner has created in Kubernetes stay valid until they expire. A kubeconfig that an earlier version of the cluster issued stays valid in the same way. To end all of them now: cluster keys rotate. Look for role bindings that you do not know: no rotation deletes them.';
const MAX_REQUEST_BYTES = 64 * 1024;
const BEGIN = '-----BEGIN CERTIFICATE REQUEST-----';
const END = '-----END CERTIFICATE REQUEST-----';

/** `cluster operator ls`: lists operators. */
export async function runOperatorList(context: CommandContext): Promise<void> {
  const { operators } = await callCurator(context, ({ operatorApi }) => operatorApi.listOperators({}));
  const views = operators.map(({ name, role, fingerprint, createdMs }) => ({
    name: printable(name),
    role: printable(role),
    fingerprint: printable(fingerprint),
    createdMs: Number(createdMs),
  }));
  const nowMs = context.ports.clock.nowMs();
  context.host.list({
    data: { operators: views },
    items: views,
    nameOf: ({ name }) => name,
    columns: [
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'ROLE', textOf: ({ role }) => role },
      { title: 'KEY', textOf: ({ fingerprint }) => fingerprint },
      { title: 'AGE', textOf: ({ createdMs }) => formatDuration(nowMs - createdMs) },
    ],
  });
}

/** Arguments of `cluster operator add`. */
export interface OperatorOptions {
  readonly role: string;
  /** PEM file of the operator's certificate request. */
  readonly request: string;
  /** File for the grant; default: standard output. */
  readonly out?: string | undefined;
  readonly dryRun?: boolean;
  /** Accept that an operator on record loses their key or rights. */
  readonly yes?: boolean;
}

/**
 * `cluster operator add`: adds an operator and writes the grant, which is all that the operator needs besides
 * their own key. Asks if an operator with this name has another key, or a higher role.
 */
export async function runOperatorAdd(
  context: CommandContext,
  name: string,
  options: OperatorOptions,
): Promise<void> {
  const { files } = context.ports;
  const raw = await files.read(options.request, MAX_REQUEST_BYTES);
  if (raw === undefined) throw new AppError('app-usage', `file ${options.request} not found`);
  const certificateRequest = parseCertificateRequest(Buffer.from(raw).toString('utf8'), options.request);
  const member = await readCaller(context);
  const { clusterId } = member;
  // Each run gets a new certificate, and a new role needs a new grant: it replaces the earlier grant of the operator.
  const isEarlier = (text: string): boolean => isGrantOf(text, { name, clusterId });
  const out = options.out === undefined ? undefined : { path: options.out, mode: 0o644, isEarlier };
  if (out !== undefined) await checkOutput(files, out);
  const pubKeyDer = await verifyCertificateRequest(certificateRequest);
  const put = { name, role: options.role, fingerprint: fingerprintOfKey(pubKeyDer) };
  const { operators: known } = await callCurator(context, ({ operatorApi }) => operatorApi.listOperators({}));
  if (await confirmPut(context, { known, put }, options)) return;
  const mutation = newMutation();
  const documents = await documentsFor(context, { name, role: options.role, certificateRequest });
  const { answer, curatorEndpoints } = await callCurator(context, async ({ curator, operatorApi }) => {
    const made = await operatorApi.putOperator({
      name,
      role: options.role,
      certificateRequest,
      documents,
      mutation,
    });
    const { directory } = await curator.getClusterInfo({});
    return { answer: made, curatorEndpoints: directory.map((each) => each.curatorEndpoint) };
  });
  await saveSubmittedDocuments(context, documents);
  // The grant contains the CA that this caller trusts now, not one from the response.
  const { clusterCaPem, ca, ownerKeys } = await readCaller(context);
  const { certificatePem } = answer;
  const fingerprint = printable(answer.operator?.fingerprint ?? '');
  const kubernetes = await kubernetesEndpointOf(context, member);
  const vouchers = options.role === 'owner' ? await vouchersOf(member, certificateRequest) : undefined;
  const grant = renderGrant({
    version: 1,
    name,
    role: options.role,
    clusterId,
    clusterCaPem,
    ...(ca.generation === 1 ? {} : { clusterCaGeneration: ca.generation }),
    ownerKeys: ownerKeys.map((key) => Buffer.from(key).toString('base64')),
    certificatePem,
    curatorEndpoints,
    ...(kubernetes === undefined ? {} : { kubernetes }),
    ...(vouchers === undefined ? {} : { vouchers }),
  });
  if (out !== undefined) await writeOutput(files, out, grant);
  const data = { name, role: options.role, fingerprint, certificatePem, clusterCaPem, curatorEndpoints };
  context.host.result(data, () =>
    options.out === undefined
      ? grant.trimEnd()
      : [
          `Operator ${name} added with role ${options.role}.`,
          `  key    ${fingerprint}`,
          `  grant  ${options.out}`,
          `The grant contains no secret. ${name} accepts it with: cluster operator accept ${options.out}`,
        ].join('\n'),
  );
}

/** The signed list of operators including the new one; if the role is owner, also the signed list of owners. */
async function documentsFor(
  context: CommandContext,
  put: { readonly name: string; readonly role: string; readonly certificateRequest: Uint8Array },
): Promise<Uint8Array[]> {
  const role = OPERATOR_ROLES.find((each) => each === put.role);
  if (role === undefined) return []; // the curator refuses an unknown role, and its error lists the valid ones
  const pubKeyDer = await verifyCertificateRequest(put.certificateRequest);
  const operator = { name: put.name, fingerprint: fingerprintOfKey(pubKeyDer), role };
  const ownerKey =
    role === 'owner' ? Buffer.from(rawFromEd25519Spki(pubKeyDer)).toString('base64') : undefined;
  return signedOperators(context, { kind: 'put', operator, ownerKey });
}

/** The vouchers with which machines accept the key of the request as the key of an owner. */
async function vouchersOf(
  member: Caller,
  certificateRequest: Uint8Array,
): Promise<OperatorGrant['vouchers']> {
  return vouchersFor(member, await verifyCertificateRequest(certificateRequest)).map(({ by, signature }) => ({
    by: Buffer.from(by).toString('base64'),
    signature: Buffer.from(signature).toString('base64'),
  }));
}

/**
 * `cluster operator remove`. If the removed owner has signed the cluster ownership, the caller first signs it
 * instead.
 */
export async function runOperatorRemove(
  context: CommandContext,
  name: string,
  options: { readonly dryRun: boolean; readonly yes: boolean },
): Promise<void> {
  const known = await findOperator(context, name);
  if (await confirmOperatorRemoval(context, { name, known }, options)) return;
  const mutation = newMutation();
  const documents = await signedOperators(context, { kind: 'remove', name });
  const remove = () =>
    callCurator(context, ({ operatorApi }) => operatorApi.deleteOperator({ name, documents, mutation }));
  let hasSigned = false;
  try {
    await remove();
  } catch (error) {
    const code = error instanceof CodedError ? String(error.code) : undefined;
    if (code === 'operatorapi-operator-unknown') {
      const earlier = await findRemoval(context, name);
      if (earlier === undefined) throw error;
      context.host.result({ name, removed: true, hasSigned, removedMs: earlier.timeMs }, () => earlier.text);
      return;
    }
    if (code !== 'operatorapi-ownership-signer' || context.ownerSignature !== undefined) throw error;
    await signOwnership(context);
    hasSigned = true;
    await remove();
  }
  await saveSubmittedDocuments(context, documents);
  context.host.result({ name, removed: true, hasSigned }, () =>
    [
      `Operator ${name} removed: every curator refuses the key, and API servers refuse the kubeconfig within seconds.`,
      ...(known?.role === 'owner' ? [OWNER_LEFTOVERS] : []),
      ...(hasSigned
        ? [
            `The document that names the owners of the cluster is now signed with your key. Machines whose provisioning lists only the key of ${name} as an owner key refuse to join: provision them again with \`cluster node cloud-init\`.`,
          ]
        : []),
    ].join('\n'),
  );
}

/** The earlier removal of an operator that the cluster does not know, so that a repeated command tells it from a wrong name. */
async function findRemoval(context: CommandContext, name: string) {
  const found = await findNewestDecision(context, { method: 'DeleteOperator', subject: name });
  if (found === undefined) return undefined;
  const { timeMs } = found;
  const time = new Date(timeMs).toISOString();
  return { timeMs, text: `Operator ${name} was removed already, at ${time} by ${printable(found.caller)}.` };
}

async function findOperator(context: CommandContext, name: string) {
  const { operators } = await callCurator(context, ({ operatorApi }) => operatorApi.listOperators({}));
  return operators.find((each) => each.name === name);
}

/**
 * Asks for confirmation before an operator is removed; with `--dry-run` shows the loss instead and resolves with true. The
 * cluster refuses an unknown name.
 */
async function confirmOperatorRemoval(
  context: CommandContext,
  { name, known }: { readonly name: string; readonly known: Awaited<ReturnType<typeof findOperator>> },
  { dryRun, yes }: { readonly dryRun: boolean; readonly yes: boolean },
): Promise<boolean> {
  if (yes && !dryRun) return false;
  const losses =
    known === undefined
      ? []
      : [
          `role ${printable(known.role)} of ${name}: every curator refuses the key ${printable(known.fingerprint)}`,
        ];
  if (!dryRun) {
    await confirmLoss(context, { doing: `removing operator ${name}`, losses, yes });
    return false;
  }
  const earlier = known === undefined ? await findRemoval(context, name) : undefined;
  context.host.result({ name, removed: false, dryRun, losses }, () =>
    known === undefined
      ? `${earlier?.text ?? `operator ${JSON.stringify(name)} not found.`} Nothing would be changed.`
      : [`Operator ${name} would be removed. Nothing was changed. Consequences:`, renderLosses(losses)].join(
          '\n',
        ),
  );
  return true;
}

/** PEM → DER. @throws AppError `app-usage` */
export function parseCertificateRequest(pem: string, path: string): Uint8Array {
  const from = pem.indexOf(BEGIN);
  const to = pem.indexOf(END);
  const body = from < 0 || to < from ? '' : pem.slice(from + BEGIN.length, to).replace(/\s/g, '');
  if (body === '' || !/^[A-Za-z0-9+/]+={0,2}$/.test(body))
    throw new AppError(
      'app-usage',
      `${path} is not a PEM certificate request: create one with cluster operator key NAME`,
    );
  return new Uint8Array(Buffer.from(body, 'base64'));
}
