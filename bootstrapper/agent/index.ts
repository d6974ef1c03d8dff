/** The composition root of the agent: values, their one writer each, workers, and the order of life. */
export type { AgentOptions, AgentPorts } from './agent-ports.ts';
export { runAgent } from './agent.ts';
