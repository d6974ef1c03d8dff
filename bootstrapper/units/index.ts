/**
 * The join service on a control-plane node, seen from the agent: its configuration, its unit, and whether it serves.
 * Keys reach it as systemd credentials: the agent's files stay root's, and the service sees copies in memory.
 */
export { CuratorUnit, type CuratorUnitConfig, type CuratorUnitPorts } from './curator-unit.ts';
export { UnitError, unitErrors, type UnitErrorCode } from './errors.ts';
export {
  AUTHORIZE_PORT,
  CURATOR_PORT,
  JOIN_PORT,
  JOINSERVICE_UNIT,
  JOINSERVICE_USER,
  type JoinserviceFiles,
  type JoinserviceSettings,
} from './joinservice-unit.ts';
