/** This node as a client of its cluster's curators. */
export {
  chooseCurator,
  createCuratorDialer,
  type CuratorConnection,
  type CuratorDialer,
} from './curator-client.ts';
