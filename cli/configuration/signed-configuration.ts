import { createHash } from 'node:crypto';
import type { SignedRecords } from '../sign/index.ts';
import type { CurrentConfiguration } from './current-configuration.ts';
import { ConfigurationError } from './errors.ts';

/**
 * Checks that an owner has signed the active configuration, before an owner signs another one that keeps parts of it. Without
 * this check the signature would cover what anyone had written to etcd. No check for a caller who signs nothing.
 * @throws ConfigurationError `configuration-unsigned`
 */
export function requireSignedConfiguration(
  signer: SignedRecords | undefined,
  { text, revision }: Pick<CurrentConfiguration, 'text' | 'revision'>,
  doing: string,
): void {
  if (signer === undefined) return;
  const signed = signer.newest('policy')?.body.configurationSha256;
  if (signed === createHash('sha256').update(text, 'utf8').digest('hex')) return;
  const found = signed === undefined ? 'none was signed' : 'an owner signed another configuration';
  throw new ConfigurationError(
    'configuration-unsigned',
    `${doing}: revision ${revision} is not signed: ${found}`,
  );
}
