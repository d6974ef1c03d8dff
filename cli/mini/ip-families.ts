import { familiesOf, type LocalFamilies } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { layoutOf, readConfig } from '../workspace/index.ts';
import { MiniError } from './errors.ts';

/**
 * Whether the machines of a local cluster have IPv6 addresses: they do if the networks in its cluster.yaml include IPv6.
 * @param wanted `ipFamily`: what the operator asked for; undefined: what the file says
 * @throws MiniError `mini-ip-family-other`
 */
export async function readHasIpv6(
  { ports, paths }: Pick<CommandContext, 'ports' | 'paths'>,
  { name, ipFamily }: { readonly name: string; readonly ipFamily?: LocalFamilies },
): Promise<boolean> {
  const { networking } = await readConfig(ports.files, layoutOf(paths.workspace));
  const found = familiesOf(networking.serviceSubnet);
  const hasIpv6 = found.includes('IPv6');
  if (ipFamily === undefined || hasIpv6 === (ipFamily === 'dual')) return hasIpv6;
  throw new MiniError(
    'mini-ip-family-other',
    `local cluster ${name} has ${found.join(' and ')} networks, so --ip-family ${ipFamily} does not fit`,
  );
}
