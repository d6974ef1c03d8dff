import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import {
  createCertificateRequest,
  fingerprintOfKey,
  pubKeyDerOf,
  verifyMemberCertificate,
} from '../../internal/pki/index.ts';
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

const MAX_GRANT_BYTES = 256 * 1024;
const NAME = /^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$/;

/** `cluster operator key`: a key that stays here, and the request that an owner answers. The same again changes nothing. */
export async function runOperatorKey(
  context: CommandContext,
  name: string,
  options: { readonly request: string | undefined },
): Promise<void> {
  if (!NAME.test(name))
    throw new AppError('app-usage', `reading the name: lower-case letters, digits and .-_@, at most 64`);
  const { ports, paths } = context;
  const path = paths.identity ?? layoutOf(paths.workspace).identity;
  await ports.files.makeDirectory(paths.workspace);
  const identity = await createIdentity(ports.files, path, name);
  const request = options.request ?? join(paths.workspace, `${name}.csr`);
  await ports.files.writeAtomic(request, await requestOf(identity), { mode: 0o644 });
  const fingerprint = fingerprintOfKey(pubKeyDerOf(identity.keyPem));
  context.host.result({ name, identity: path, request, fingerprint, created: identity.created }, () =>
    [
      identity.created
        ? `The key of ${name} is in ${path}; keep it to yourself.`
        : `${path} is there already.`,
      `  key      ${fingerprint}`,
      `  request  ${request}`,
      `An owner answers with: cluster operator add ${name} --role ROLE --request ${request} --out ${name}.grant`,
    ].join('\n'),
  );
}

/** `cluster operator accept`: completes the identity with what the owner answered, if it is for this very key. */
export async function runOperatorAccept(context: CommandContext, path: string): Promise<void> {
  const { files } = context.ports;
  const at = (await identityPathOf(context)) ?? layoutOf(context.paths.workspace).identity;
  const identity = await readIdentity(files, at);
  const raw = await files.read(path, MAX_GRANT_BYTES);
  if (raw === undefined) throw new AppError('app-usage', `reading ${path}: there is no such file`);
  const grant = parseGrant(Buffer.from(raw).toString('utf8'), path);
  checkGrant(context, identity, grant);
  await saveGrant(files, at, { ...identity, grant });
  const { role, clusterId } = grant;
  context.host.result({ name: grant.name, role, clusterId, identity: at }, () =>
    [
      `${printable(grant.name)} is ${printable(role)} of cluster ${printable(clusterId)}.`,
      `Every command asks as ${printable(grant.name)} in this directory, elsewhere with --identity ${at}.`,
    ].join('\n'),
  );
}

/** The certificate is what counts: it must be the cluster's, an operator's, and for the key in the identity. */
function checkGrant({ ports }: CommandContext, identity: OperatorIdentity, grant: OperatorGrant): void {
  const fingerprint = fingerprintOfKey(pubKeyDerOf(identity.keyPem));
  const trust = { caPem: grant.clusterCaPem, clusterId: grant.clusterId, nowMs: () => ports.clock.nowMs() };
  const member = verifyMemberCertificate(new X509Certificate(grant.certificatePem), trust);
  if (member.kind === 'operator' && member.name === grant.name && member.fingerprint === fingerprint) return;
  throw new AppError(
    'app-usage',
    `taking the grant of ${printable(grant.name)}: its certificate is for another key than ${identity.name}’s, ${fingerprint}`,
  );
}

async function requestOf({ keyPem, name }: OperatorIdentity): Promise<string> {
  const base64 = Buffer.from(await createCertificateRequest(keyPem, name)).toString('base64');
  const lines = base64.match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE REQUEST-----', ...lines, '-----END CERTIFICATE REQUEST-----', ''].join(
    '\n',
  );
}
