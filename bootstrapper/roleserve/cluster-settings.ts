import { nodeSettingsFrom } from '../../internal/config/index.ts';
import type { InitSpec } from '../initserver/index.ts';
import type { ClusterSettings } from './role-values.ts';

/** The settings of a new cluster. Every later node gets them with its ticket. */
export function settingsFromSpec(spec: InitSpec): ClusterSettings {
  const { clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest } = spec;
  return {
    ...{ clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest },
    ...nodeSettingsFrom(spec.configuration),
  };
}
