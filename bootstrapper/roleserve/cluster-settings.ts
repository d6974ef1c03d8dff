import { nodeSettingsFrom } from '../../internal/config/index.ts';
import type { InitSpec } from '../initserver/index.ts';
import type { ClusterSettings } from './role-values.ts';

/** The same settings that every later node gets from the cluster. */
export function settingsFromSpec(spec: InitSpec): ClusterSettings {
  const { clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest } = spec;
  return {
    ...{ clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest },
    ...nodeSettingsFrom(spec.configuration),
  };
}
