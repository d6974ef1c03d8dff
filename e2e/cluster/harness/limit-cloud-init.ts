import { stringify } from 'yaml';
import { place, type StoryCluster } from './story-cluster.ts';

/** What user data of a node needs: no cloud data source, and no changes of the network or of the machine itself. */
const CLOUD_CONFIG = {
  datasource_list: ['NoCloud'],
  network: { config: 'disabled' },
  preserve_hostname: true,
  apt: { preserve_sources_list: true },
  cloud_init_modules: ['write-files'],
  cloud_config_modules: ['runcmd'],
  cloud_final_modules: ['package-update-upgrade-install', 'scripts-user'],
};

/** Limits cloud-init to what it can do in a container. */
export async function limitCloudInit(cluster: StoryCluster, machine: string): Promise<void> {
  await place(cluster, machine, '/etc/cloud/cloud.cfg.d/99-story.cfg', stringify(CLOUD_CONFIG));
}
