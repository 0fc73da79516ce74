# Completions of redrive for fish. The program itself knows what may follow.
function __redrive_complete
    set -l current (commandline -ct)
    set -l found (command redrive __complete -- (commandline -opc) "$current" 2>/dev/null </dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c redrive -f -a '(__redrive_complete)'
