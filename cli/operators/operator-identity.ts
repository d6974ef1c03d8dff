import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import {
  createCertificateRequest,
  fingerprintOfKey,
  pubKeyDerOf,
  verifyMemberCertificate,
} from '../../internal/pki/index.ts';
import { OPERATOR_NAME } from '../../internal/records/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import {
  createIdentity,
  layoutOf,
  parseGrant,
  readIdentity,
  saveGrant,
  type OperatorGrant,
  type OperatorIdentity,
} from '../workspace/index.ts';
import { identityPathOf } from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';
import { checkOutput, writeOutput } from '../app/output-file.ts';

const BEGIN = '-----BEGIN CERTIFICATE REQUEST-----';
const MAX_GRANT_BYTES = 256 * 1024;

/**
 * `cluster operator key`: creates a key, which stays here, and a certificate request for an owner. A second run changes
 * nothing. @throws AppError `app-usage`, `app-file-exists`
 */
export async function runOperatorKey(
  context: CommandContext,
  name: string,
  options: { readonly request?: string | undefined; readonly passphrase?: boolean | undefined },
): Promise<void> {
  if (!OPERATOR_NAME.test(name))
    throw new AppError(
      'app-usage',
      `invalid operator name ${JSON.stringify(name)}: use at most 64 lower-case letters, digits and .-_@`,
    );
  const { ports, paths } = context;
  const path = paths.identity ?? layoutOf(paths.workspace).identity;
  const request = options.request ?? join(paths.workspace, `${name}.csr`);
  // Before the key is created. An earlier request may be the one that is written again.
  await checkOutput(ports.files, { path: request, isEarlier: (text) => text.startsWith(BEGIN) });
  await ports.files.makeDirectory(paths.workspace);
  const identity = await createIdentity(context, path, { name, encrypt: options.passphrase ?? false });
  await writeOutput(ports.files, { path: request, mode: 0o644 }, await requestOf(identity));
  const fingerprint = fingerprintOfKey(pubKeyDerOf(identity.keyPem));
  context.host.result({ name, identity: path, request, fingerprint, created: identity.created }, () =>
    [
      identity.created ? `Created the key of ${name} in ${path}. Keep it secret.` : `${path} already exists.`,
      `  key      ${fingerprint}`,
      `  request  ${request}`,
      `An owner adds ${name} with: cluster operator add ${name} --role ROLE --request ${request} --out ${name}.grant`,
    ].join('\n'),
  );
}

/** `cluster operator accept`: adds the owner's grant to the identity, if it is for this key. @throws AppError `app-usage` */
export async function runOperatorAccept(context: CommandContext, path: string): Promise<void> {
  const { files } = context.ports;
  const at = (await identityPathOf(context)) ?? layoutOf(context.paths.workspace).identity;
  const identity = await readIdentity(context, at);
  const raw = await files.read(path, MAX_GRANT_BYTES);
  if (raw === undefined) throw new AppError('app-usage', `file ${path} not found`);
  const grant = parseGrant(Buffer.from(raw).toString('utf8'), path);
  checkGrant(context, identity, grant);
  await saveGrant(context, at, { ...identity, grant });
  const { role, clusterId } = grant;
  context.host.result({ name: grant.name, role, clusterId, identity: at }, () =>
    [
      `${printable(grant.name)} is ${printable(role)} of cluster ${printable(clusterId)}.`,
      `Commands in this directory authenticate as ${printable(grant.name)}; elsewhere use --identity ${at}.`,
    ].join('\n'),
  );
}

/** The certificate must be an operator certificate of the cluster for the key of the identity. */
function checkGrant({ ports }: CommandContext, identity: OperatorIdentity, grant: OperatorGrant): void {
  const fingerprint = fingerprintOfKey(pubKeyDerOf(identity.keyPem));
  const trust = { caPem: grant.clusterCaPem, clusterId: grant.clusterId, nowMs: () => ports.clock.nowMs() };
  const member = verifyMemberCertificate(new X509Certificate(grant.certificatePem), trust);
  if (member.kind === 'operator' && member.name === grant.name && member.fingerprint === fingerprint) return;
  throw new AppError(
    'app-usage',
    `the grant of ${printable(grant.name)} is for another key than the key of ${identity.name}, ${fingerprint}`,
  );
}

async function requestOf({ keyPem, name }: OperatorIdentity): Promise<string> {
  const base64 = Buffer.from(await createCertificateRequest(keyPem, name)).toString('base64');
  const lines = base64.match(/.{1,64}/g) ?? [];
  return [BEGIN, ...lines, '-----END CERTIFICATE REQUEST-----', ''].join('\n');
}
