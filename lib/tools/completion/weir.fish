# Completion of weir for fish.

set -l commands check explain simulate keys bench
set -l actions look reset block unblock blocks

function __weir_action --description 'whether the action of "weir keys" is one of these'
    __fish_seen_subcommand_from keys; and __fish_seen_subcommand_from $argv
end

complete -c weir -f
complete -c weir -n __fish_use_subcommand -l version -d 'print the version'
complete -c weir -l help -d 'print what can be given'
complete -c weir -n __fish_use_subcommand -a check -d 'say what is wrong with policy files'
complete -c weir -n __fish_use_subcommand -a explain -d 'say what becomes of a request, and why'
complete -c weir -n __fish_use_subcommand -a simulate -d 'say whom a policy file would have refused of those in access logs'
complete -c weir -n __fish_use_subcommand -a keys -d 'look at what clients have left, reset and block them'
complete -c weir -n __fish_use_subcommand -a bench -d 'measure how many decisions a policy file makes'
complete -c weir -n __fish_use_subcommand -a help -d 'tell of one command'
complete -c weir -n '__fish_seen_subcommand_from help' -a "$commands"

complete -c weir -n '__fish_seen_subcommand_from check' -F
complete -c weir -n '__fish_seen_subcommand_from check' -l strict -d 'fail for warnings too'
complete -c weir -n '__fish_seen_subcommand_from check' -l expand -d 'print the file as it is meant'
complete -c weir -n '__fish_seen_subcommand_from check' -l json -d 'print all as JSON'

complete -c weir -n '__fish_seen_subcommand_from explain' -l policy -r -F -d 'the policy file'
complete -c weir -n '__fish_seen_subcommand_from explain' -l method -x -d 'of the request'
complete -c weir -n '__fish_seen_subcommand_from explain' -l path -x -d 'of the request, as a client writes it'
complete -c weir -n '__fish_seen_subcommand_from explain' -l peer -x -d 'the other end of its connection'
complete -c weir -n '__fish_seen_subcommand_from explain' -l header -x -d 'a header line: NAME:VALUE'
complete -c weir -n '__fish_seen_subcommand_from explain' -l field -x -d 'a field of its body: NAME=VALUE'
complete -c weir -n '__fish_seen_subcommand_from explain' -l user -x -d 'the user whom the application finds'
complete -c weir -n '__fish_seen_subcommand_from explain' -l tenant -x -d 'the tenant that the application finds'
complete -c weir -n '__fish_seen_subcommand_from explain' -l plan -x -d 'the plan that the application finds'
complete -c weir -n '__fish_seen_subcommand_from explain' -l cost -x -d 'what it costs'
complete -c weir -n '__fish_seen_subcommand_from explain' -l request -r -F -d 'read the request from a file'
complete -c weir -n '__fish_seen_subcommand_from explain' -l live -d 'ask the store of the file what has been spent'
complete -c weir -n '__fish_seen_subcommand_from explain' -l store -x -d 'ask this store'
complete -c weir -n '__fish_seen_subcommand_from explain' -l exit-code -d 'end with 1 where the request would be refused'
complete -c weir -n '__fish_seen_subcommand_from explain' -l json -d 'print the explanation as JSON'

complete -c weir -n '__fish_seen_subcommand_from simulate' -F
complete -c weir -n '__fish_seen_subcommand_from simulate' -l policy -r -F -d 'the policy file that is tried out'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l format -x -a 'common combined json' -d 'how lines are written'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l map -x -d 'where JSON lines have something: NAME=MEMBER'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l from -x -d 'leave out what came before'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l to -x -d 'leave out what came then, or later'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l enforce -d 'as if no policy only watched'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l no-auth -d 'let in who is not named in the log'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l spread -d 'spread the requests of a second over it'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l top -x -d 'show so many of those who were refused most'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l decisions -r -F -d 'write what became of each request'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l exit-code -d 'end with 1 where somebody would be refused'
complete -c weir -n '__fish_seen_subcommand_from simulate' -l json -d 'print the figures as JSON'

complete -c weir -n '__fish_seen_subcommand_from bench' -l policy -r -F -d 'the policy file'
complete -c weir -n '__fish_seen_subcommand_from bench' -l name -x -d 'only this one of the policies'
complete -c weir -n '__fish_seen_subcommand_from bench' -l store -x -d 'ask this store'
complete -c weir -n '__fish_seen_subcommand_from bench' -l plan -x -d 'the plan that the clients have'
complete -c weir -n '__fish_seen_subcommand_from bench' -l threads -x -d 'requests at once'
complete -c weir -n '__fish_seen_subcommand_from bench' -l clients -x -d 'different clients'
complete -c weir -n '__fish_seen_subcommand_from bench' -l seconds -x -d 'so long for each policy'
complete -c weir -n '__fish_seen_subcommand_from bench' -l requests -x -d 'so many for each policy'
complete -c weir -n '__fish_seen_subcommand_from bench' -l cost -x -d 'units of each request'
complete -c weir -n '__fish_seen_subcommand_from bench' -l json -d 'print the figures as JSON'

complete -c weir -n "__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from $actions" -a look -d 'show what a client has left, without spending'
complete -c weir -n "__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from $actions" -a reset -d 'forget what a client has spent'
complete -c weir -n "__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from $actions" -a block -d 'refuse a client for a time'
complete -c weir -n "__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from $actions" -a unblock -d 'end a block before its time'
complete -c weir -n "__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from $actions" -a blocks -d 'list who is blocked'
complete -c weir -n "__weir_action $actions" -l policy -r -F -d 'the policy file'
complete -c weir -n "__weir_action $actions" -l store -x -d 'ask this Redis'
complete -c weir -n "__weir_action $actions" -l json -d 'print the answer as JSON'
complete -c weir -n '__weir_action look reset block unblock' -l name -x -d 'the policy'
complete -c weir -n '__weir_action look reset block unblock' -l limit -x -d 'only this one of its limits'
complete -c weir -n '__weir_action look reset block unblock' -l ip -x -d 'the address of a client'
complete -c weir -n '__weir_action look reset block unblock' -l api-key -x -d 'the public id of an API key'
complete -c weir -n '__weir_action look reset block unblock' -l user -x -d 'a user'
complete -c weir -n '__weir_action look reset block unblock' -l tenant -x -d 'a tenant'
complete -c weir -n '__weir_action look reset block unblock' -l plan -x -d 'the plan whose numbers hold'
complete -c weir -n '__weir_action look reset block unblock' -l route -x -d 'a route, as its "match" is written'
complete -c weir -n '__weir_action look reset block unblock' -l value -x -d 'what a client sends: header:X-Device=a1'
complete -c weir -n '__weir_action block' -l for -x -d 'how long: 90s, 15m, 2h or 7d'
complete -c weir -n '__weir_action block' -l reason -x -d 'why, for the list of blocks'
complete -c weir -n '__weir_action unblock' -l id -x -d 'a row of "weir keys blocks"'
