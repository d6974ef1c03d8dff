import type { FilePort } from '../../../internal/file/index.ts';
import type { UnitPort } from '../../../internal/platform/index.ts';
import { ensureUnit } from '../../units/index.ts';

export const METADATA_GUARD_UNIT = 'cluster-metadata-guard.service';
export const METADATA_GUARD_RULES = '/var/lib/cluster/kubernetes/metadata-guard.nft';
const TABLE = 'inet cluster_metadata';

/**
 * Keeps pods away from the cloud's metadata service, which hands out the machine's credentials to whoever asks: what comes
 * from another interface than the machine's own is refused, on its way through the machine and to an agent on it. The
 * machine itself may ask. DNS is let through: some clouds have their resolver at the same address, which cluster DNS asks.
 * The table is replaced as a whole, so that it can be loaded again.
 */
function buildMetadataRules(): string {
  const chain = (hook: 'forward' | 'input'): string => `  chain ${hook} {
    type filter hook ${hook} priority -10; policy accept;
    iif "lo" accept
    ip daddr 169.254.169.254 udp dport 53 accept
    ip daddr 169.254.169.254 tcp dport 53 accept
    ip daddr 169.254.169.254 reject with icmp type admin-prohibited
    ip6 daddr fd00:ec2::254 reject with icmpv6 type admin-prohibited
  }
`;
  return `table ${TABLE} {}
delete table ${TABLE}
table ${TABLE} {
${chain('forward')}${chain('input')}}
`;
}

/** Started with the kubelet, before its pods; it does not end with the agent. */
function buildMetadataGuardUnit(): string {
  return `[Unit]
Description=Keeps pods away from the metadata service of the cloud
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft --file ${METADATA_GUARD_RULES}
ExecStop=-/usr/sbin/nft delete table ${TABLE}
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_NET_ADMIN
LimitCORE=0
`;
}

/** Whether pods are kept away; before the kubelet starts. Resolves when the unit is as it is to be. */
export async function ensureMetadataGuard(
  { files, units }: { readonly files: FilePort; readonly units: UnitPort },
  isWanted: boolean,
  signal: AbortSignal,
): Promise<void> {
  if (!isWanted) return units.stop(METADATA_GUARD_UNIT, signal);
  await files.makeDirectory(METADATA_GUARD_RULES.slice(0, METADATA_GUARD_RULES.lastIndexOf('/')));
  await files.writeAtomic(METADATA_GUARD_RULES, buildMetadataRules());
  await ensureUnit(units, { unit: METADATA_GUARD_UNIT, content: buildMetadataGuardUnit() }, signal);
}
