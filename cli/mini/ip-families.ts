import { familiesOf, LOCAL_NETWORKS, type LocalFamilies } from '../../internal/config/index.ts';
import type { IpFamily } from '../../internal/endpoint/index.ts';
import type { CommandContext } from '../app/command.ts';
import { layoutOf, readConfig } from '../workspace/index.ts';
import { MiniError } from './errors.ts';

/**
 * The IP families of the machines of a local cluster, the first one first: those of the networks in its cluster.yaml.
 * @param wanted `ipFamily`: what the operator asked for; undefined: what the file says
 * @throws MiniError `mini-ip-family-other`
 */
export async function readFamilies(
  { ports, paths }: Pick<CommandContext, 'ports' | 'paths'>,
  { name, ipFamily }: { readonly name: string; readonly ipFamily?: LocalFamilies },
): Promise<readonly IpFamily[]> {
  const { networking } = await readConfig(ports.files, layoutOf(paths.workspace));
  const found = familiesOf(networking.serviceSubnet);
  const asked = ipFamily && familiesOf(LOCAL_NETWORKS[ipFamily].serviceSubnet);
  if (asked === undefined || asked.toSorted().join() === found.toSorted().join()) return found;
  throw new MiniError(
    'mini-ip-family-other',
    `local cluster ${name} has ${found.join(' and ')} networks, so --ip-family ${ipFamily} does not fit`,
  );
}
